"""Every node has its own hostname.

What
----
`uname -n` differs on all nodes. Of nodes that share a name, the one that has it in the cluster file is right.

Why
---
Launchers, MPI and logs distinguish machines by hostname. Two nodes with the same name are taken for one machine: ranks
are placed on the wrong node, MPI tries shared memory across a network, and people search for a failing rank on a
healthy node.

Fix
---
Give the node its own name (`hostnamectl set-hostname NAME`), correct /etc/hosts, and log in again. Machines that were
cloned from one image often share /etc/machine-id as well: `rm /etc/machine-id && systemd-machine-id-setup`, then
reboot.

Source
------
MPICH, Hydra process manager (a host is its name in the host file); NCCL source, `getHostHash`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from railbed.check.shared.nodes import gather, too_few
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.model.text import plural
from railbed.probes import hostname
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import Site

EXPECTED = "its own hostname"


def judge(site: Site) -> Iterator[Judgement]:
    """Blame every node that shares its name with another node, except the one whose name it is in the cluster file."""
    names = gather(site, hostname.PROBE, lambda facts: facts.name, EXPECTED)
    yield from names.missing
    if not names.comparable:
        yield from too_few(site, names)
        return
    shared = {node: _twins(node, names.values) for node in names.values}
    for node, twins in shared.items():
        if twins and not _is_rightful(node, twins, names.values[node]):
            yield fail(
                subject=node,
                expected=EXPECTED,
                observed=f"{names.values[node]}, as {', '.join(twins)}",
                fix=_fix(node, names.values[node]),
            )
    if not any(shared.values()):
        yield ok(
            expected=EXPECTED, observed=f"{plural(len(names.values), 'node')}, {plural(len(names.values), 'name')}"
        )


def _is_rightful(node: str, twins: Sequence[str], name: str) -> bool:
    """Whether the name is that of this node in the cluster file, and of no twin; either may have a domain."""
    return _is_of(node, name) and not any(_is_of(twin, name) for twin in twins)


def _is_of(node: str, name: str) -> bool:
    return node == name or name.startswith(f"{node}.") or node.startswith(f"{name}.")


def _fix(node: str, before: str) -> Fix:
    return Fix(
        device=node,
        apply=as_steps(f"hostnamectl set-hostname -- {shlex.quote(node)}"),
        undo=as_steps(f"hostnamectl set-hostname -- {shlex.quote(before)}"),
        persistence=Persistence.KEPT,
    )


def _twins(node: str, names: dict[str, str]) -> list[str]:
    return [other for other, name in names.items() if other != node and name == names[node]]


RULE = Rule(
    name="hostname_unique",
    title="every node has its own hostname",
    scope="cluster",
    needs=(hostname.PROBE,),
    judge=judge,
    doc=__doc__,
    rank=20,
    essential=True,
)
