"""The Python that trains on a node is new enough for railbed's code there.

What
----
The Python named in the cluster file (`python:` of a node, or `training.python`) is 3.10 or newer.

Why
---
railbed copies its own code to the nodes, and every rank, the agent that starts it, and the programs that convert
checkpoints run it with that Python. An older one stops at the first line of it that it cannot read, after the
launch has begun, and no setting of training can avoid that.

Fix
---
Install a newer Python beside that of the system, which other programs need: `dnf install python3.12` on RHEL 9 and its
relatives, `apt-get install python3.11 python3.11-venv` from a newer release or a package archive, or conda, which needs
no root. Create an environment with it, and name that environment's Python in the cluster file. Ubuntu 22.04 (3.10),
Debian 12 (3.11) and newer releases have one that will do.

Source
------
railbed, docs/decisions/0025-nodes-with-python-3.10.md; Python developer's guide, status of Python versions.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.environment import OLDEST, able_pythons, conda_with_torch
from railbed.probes import pythons, torch
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = f"Python {OLDEST[0]}.{OLDEST[1]} or newer"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Compare the version with the oldest that runs what nodes get."""
    version = node.read(torch.PROBE).python
    if version is None:
        yield skip("there is no such Python: see torch_equal", expected=EXPECTED)
        return
    release = release_of(version)
    words = " ".join(node.site.cluster.interpreter_of(node.name))
    observed = f"Python {version} ({words})"
    if release is None:
        yield unknown(expected=EXPECTED, observed=f"not a version of Python: {version}")
    elif release < OLDEST:
        yield fail(expected=EXPECTED, observed=observed, remedy=conda_with_torch(node) or _advice(node))
    else:
        yield ok(expected=EXPECTED, observed=observed)


def _advice(node: NodeView) -> str:
    setting = f"set `python:` of {node.name} in the cluster file"
    able = able_pythons(node)
    if not able:
        return f"install a newer Python on {node.name}, and {setting} to it"
    newer = f"{able[0].name} there is {able[0].version}"
    return f"{newer}: {setting} to an environment that does not exist yet, and torch_equal creates it"


def release_of(version: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version; None if it has none."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    is_version = all(part.isascii() and part.isdecimal() and len(part) < 4 for part in (major, minor))
    return (int(major), int(minor)) if is_version else None


def isolation(version: str | None) -> str:
    """Return the option with which a Python takes no module from the current folder; 3.10 has only the stricter one."""
    release = release_of(version) if version else None
    return "-I" if release is not None and release < (3, 11) else "-P"


def is_too_old(version: str | None) -> bool:
    """Whether a node's Python is known to be too old for what runs there."""
    release = release_of(version) if version else None
    return release is not None and release < OLDEST


RULE = Rule(
    name="python_version",
    title="the Python that trains is new enough",
    scope="node",
    needs=(torch.PROBE, pythons.PROBE),
    judge=judge,
    doc=__doc__,
    essential=True,
)
