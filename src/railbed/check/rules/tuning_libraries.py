"""The nodes have the libraries that tuning existing models needs.

What
----
The Python named in the cluster file has transformers, peft and bitsandbytes, each in a version that railbed works with.
Only `railbed train lora` and `qlora` need them, so this rule is judged only if it is named.

Why
---
A rank imports them when it starts. A node that lacks one cannot take part, and a version that is too old loads a model
in another way than the other nodes do.

Fix
---
`pip install "bitsandbytes>=0.50" "peft>=0.21" "transformers>=5.23"` in the environment that `python:` in the cluster
file names. `railbed configure --rule tuning_libraries --apply` does that on all nodes, from a package index, or with
`--wheels DIR` from a folder of wheels. What is installed there already is not changed.

Source
------
pyproject.toml of railbed, the extra `tune`.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rules import python_version, torch_equal
from railbed.check.shared.environment import TUNING, add_libraries, environment_prefix
from railbed.probes import torch
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

OLDEST = dict(requirement.split(">=") for requirement in TUNING)
EXPECTED = ", ".join(f"{name} {oldest}" for name, oldest in OLDEST.items())


def judge(node: NodeView) -> Iterator[Judgement]:
    """Compare the version of each with the oldest that will do."""
    facts = node.read(torch.PROBE)
    python = node.site.cluster.interpreter_of(node.name)
    prefix = environment_prefix(python[0]) if len(python) == 1 else None
    if facts.torch is None:
        yield _without_torch(node, facts, prefix)
        return
    if facts.libraries is None:
        yield unknown(expected=EXPECTED, observed="they were not looked for: the recording is older than this rule")
        return
    have = facts.libraries
    missing = [name for name in OLDEST if name not in have]
    old = [name for name, oldest in OLDEST.items() if name in have and _number(have[name]) < _number(oldest)]
    isolated = python_version.isolation(facts.python)
    install = f"on {node.name}: {' '.join(python)} {isolated} -m pip install {' '.join(map(repr, TUNING))}"
    if old:
        observed = ", ".join(f"{name} {have[name]}" for name in old)
        yield fail(expected=EXPECTED, observed=f"too old: {observed}", remedy=install)
    elif missing:
        fix = add_libraries(node.name, prefix) if prefix else None
        remedy = "" if fix else install
        yield fail(expected=EXPECTED, observed=f"missing: {', '.join(missing)}", fix=fix, remedy=remedy)
    else:
        yield ok(expected=EXPECTED, observed=", ".join(f"{name} {have[name]}" for name in OLDEST))


def _without_torch(node: NodeView, facts: torch.Torch, prefix: str | None) -> Judgement:
    """Judge a node that cannot train at all: if its environment is yet to be created, they are added to that."""
    if facts.python is None and prefix:
        fix = add_libraries(node.name, prefix, after=(torch_equal.RULE.name,))
        return fail(expected=EXPECTED, observed=f"no environment at {prefix}", fix=fix)
    return fail(expected=EXPECTED, observed="no torch", remedy="first what torch_equal advises")


def _number(version: str) -> tuple[int, ...]:
    """Return the release as numbers: `5.23.0rc1` is (5, 23, 0)."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits[:9]))
    return tuple(numbers)


RULE = Rule(
    name="tuning_libraries",
    title="the libraries that tuning existing models needs are installed",
    scope="node",
    stage="environment",
    needs=(torch.PROBE,),
    judge=judge,
    doc=__doc__,
    on_request=True,
)
