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

from railbed.check.rule import Check, Judgement, fail, ok, skip, unknown
from railbed.check.site import NodeView
from railbed.probes import hostname

EXPECTED = "resolves to a reachable address"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the addresses that the node's own name resolves to on the node."""
    if len(node.site.cluster.nodes) == 1:
        yield skip("only one node: its ranks meet on loopback")
        return
    facts = node.read(hostname.PROBE)
    if facts.addresses is None:
        yield unknown(expected=EXPECTED, observed="getent is not installed")
    elif not facts.addresses:
        remedy = f"in /etc/hosts of {node.name}: add {_entry(node, facts.name)}"
        yield fail(expected=EXPECTED, observed=f"{facts.name} does not resolve", remedy=remedy)
    elif facts.resolves_to_loopback_first:
        remedy = f"in /etc/hosts of {node.name}: replace the line of {facts.name} by {_entry(node, facts.name)}"
        yield fail(expected=EXPECTED, observed=f"{facts.name} is {facts.addresses[0]}", remedy=remedy)
    else:
        yield ok(expected=EXPECTED, observed=f"{facts.name} is {facts.addresses[0]}")


def _entry(node: NodeView, name: str) -> str:
    address = str(node.node.ports[0].address) if node.node.ports else "ADDRESS"
    return f"`{address} {name}`"


CHECK = Check(
    name="hostname_resolves",
    title="the hostname resolves, and not to loopback",
    scope="node",
    needs=(hostname.PROBE,),
    judge=judge,
    doc=__doc__,
)
