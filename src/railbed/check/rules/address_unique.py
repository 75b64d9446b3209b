"""No rail address is on two nodes.

What
----
Every rail address of the cluster file is on one node only, on any interface.

Why
---
An address that exists twice makes connections end at either node by chance: RDMA connections break when the ARP entry
changes, and training hangs in the middle of an epoch while every single check looks fine.

Fix
---
Give one of the nodes its own address (a cloned disk or a copied network configuration is the usual cause), then clear
the neighbour tables with `ip neigh flush to ADDRESS`.

Source
------
RFC 5227, IPv4 address conflict detection: Linux does not look for conflicts on IPv4 by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railbed.check.shared.port import some
from railbed.model.cluster import Port
from railbed.model.text import plural
from railbed.probes import ip_addr
from railbed.probes.ip_addr import Address
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import Site

EXPECTED = "each rail address on one node"


def judge(site: Site) -> Iterator[Judgement]:
    """Gather who has each rail address."""
    ports = {str(port.address): (node, port) for node, port in site.cluster.ports()}
    owners: dict[str, dict[str, tuple[str, Address]]] = {}
    unread = []
    for node in site.nodes:
        facts = node.try_read(ip_addr.PROBE)
        if facts is None:
            unread.append(node.name)
            continue
        own = [(name, address) for name, addresses in facts.interfaces.items() for address in addresses]
        for netdev, address in own:
            if address.address in ports:
                owners.setdefault(address.address, {}).setdefault(node.name, (netdev, address))
    twice = {text: nodes for text, nodes in owners.items() if len(nodes) > 1}
    for text, nodes in sorted(twice.items()):
        yield _duplicate(text, nodes, *ports[text])
    if unread:
        yield unknown(expected=EXPECTED, observed=f"the addresses of {some(unread)} were not read")
    elif owners and not twice:
        yield ok(expected=EXPECTED, observed=f"{plural(len(owners), 'address', 'addresses')}, each on one node")


def _duplicate(address: str, nodes: Mapping[str, tuple[str, Address]], owner: str, port: Port) -> Judgement:
    """Blame the only node that has the address of another; if there are several, or none is right, the cluster."""
    strangers = [node for node in nodes if node != owner]
    if len(strangers) > 1 or owner not in nodes:
        remedy = RULE.fix.replace("ADDRESS", address)
        return fail(expected=EXPECTED, observed=f"{address} is on {some(nodes)}", remedy=remedy)
    (stranger,) = strangers
    netdev, here = nodes[stranger]
    return fail(
        subject=f"{stranger}/{netdev}",
        expected=EXPECTED,
        observed=f"has {address}, the address of {owner}/{port.netdev}",
        remedy=f"if {owner} is to have it: `ip addr del {address}/{here.prefix} dev {netdev}` on {stranger}, and "
        f"`ip neigh flush to {address}` on the other nodes; {stranger} may have been cloned from {owner}",
    )


def _unless(site: Site) -> str:
    return "" if any(site.cluster.ports()) else "no port on a rail"


RULE = Rule(
    name="address_unique",
    title="no duplicate rail address",
    scope="cluster",
    stage="rail",
    needs=(ip_addr.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
    essential=True,
    at_restart=True,
)
