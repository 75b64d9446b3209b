"""The hostname of every node resolves to an address that other nodes can reach.

What
----
On each node, `getent ahosts "$(hostname)"` gives an address, and the first one is not loopback.

Why
---
Without GLOO_SOCKET_IFNAME, PyTorch's Gloo resolves the node's own hostname and publishes the first address it gets
to the other ranks. With Debian's line `127.0.1.1 NAME` every rank publishes loopback: `init_process_group` fails with
"connection refused" or hangs until its time-out.

Fix
---
In /etc/hosts, give the hostname the node's real address in place of 127.0.0.1 or 127.0.1.1 (cloud images: set
`manage_etc_hosts: false` in cloud-init first). Or set GLOO_SOCKET_IFNAME on every rank.

Source
------
PyTorch, ProcessGroupGloo `createDefaultDevice`; pytorch#15592 (connect [127.0.1.1]: connection refused); Debian
reference, chapter 5.1.1 (the reason for 127.0.1.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.model.fix import FileStep, Fix, Persistence
from railbed.probes import hostname
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "resolves to a reachable address"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the addresses that the node's own name resolves to on the node."""
    facts = node.read(hostname.PROBE)
    if facts.addresses is None:
        yield unknown(expected=EXPECTED, observed="getent is not installed")
    elif not facts.addresses:
        remedy = f"in /etc/hosts of {node.name}: add {_entry(node, facts.name)}"
        yield _wrong(node, facts, f"{facts.name} does not resolve", remedy)
    elif facts.resolves_to_loopback_first:
        remedy = f"in /etc/hosts of {node.name}: replace the line of {facts.name} by {_entry(node, facts.name)}"
        yield _wrong(node, facts, f"{facts.name} is {facts.addresses[0]}", remedy)
    else:
        yield ok(expected=EXPECTED, observed=f"{facts.name} is {facts.addresses[0]}")


def _wrong(node: NodeView, facts: hostname.Hostname, observed: str, remedy: str) -> Judgement:
    fix = _fix(node, facts)
    return fail(expected=EXPECTED, observed=observed, fix=fix, remedy="" if fix else remedy)


def _fix(node: NodeView, facts: hostname.Hostname) -> Fix | None:
    """Give the name the node's first rail address in /etc/hosts, and take it from loopback there."""
    if facts.hosts is None or not node.node.ports:
        return None
    lines = [changed for line in facts.hosts.splitlines() if (changed := _without(line, facts.name)) is not None]
    content = "\n".join([*lines, f"{node.node.ports[0].address} {facts.name}"]) + "\n"
    return Fix(
        device=node.name,
        apply=(FileStep(path="/etc/hosts", content=content),),
        undo=(),
        persistence=Persistence.KEPT,
        note=f"it has {_entry(node, facts.name)}, and {facts.name} no longer at loopback",
    )


def _without(line: str, name: str) -> str | None:
    """Return a line of /etc/hosts without a name, if it gives that to loopback; None if no name would be left."""
    words = line.partition("#")[0].split()
    if name not in words[1:] or not (words[0].startswith("127.") or words[0] == "::1"):
        return line
    others = [word for word in words[1:] if word != name]
    return " ".join([words[0], *others]) if others else None


def _entry(node: NodeView, name: str) -> str:
    address = str(node.node.ports[0].address) if node.node.ports else "ADDRESS"
    return f"`{address} {name}`"


def _unless(node: NodeView) -> str:
    return "only one node: its ranks meet on loopback" if len(node.site.cluster.nodes) == 1 else ""


RULE = Rule(
    name="hostname_resolves",
    title="the hostname resolves, and not to loopback",
    scope="node",
    needs=(hostname.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    rank=30,
)
