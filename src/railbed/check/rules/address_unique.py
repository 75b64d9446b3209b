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

from collections.abc import Iterator

from railbed.check.rule import Check, Judgement, fail, ok, unknown
from railbed.check.shared.wording import some
from railbed.check.site import Site
from railbed.model.text.amount import plural
from railbed.probes import ip_addr

EXPECTED = "each rail address on one node"


def judge(site: Site) -> Iterator[Judgement]:
    """Gather who has each rail address."""
    rail_addresses = {str(port.address) for _, port in site.cluster.ports()}
    if not rail_addresses:
        return
    owners: dict[str, list[str]] = {}
    unread = []
    for node in site.nodes:
        facts = node.try_read(ip_addr.PROBE)
        if facts is None:
            unread.append(node.name)
            continue
        own = {address.address for addresses in facts.interfaces.values() for address in addresses}
        for address in own & rail_addresses:
            owners.setdefault(address, []).append(node.name)
    twice = {address: nodes for address, nodes in owners.items() if len(nodes) > 1}
    for address, nodes in sorted(twice.items()):
        remedy = CHECK.fix.replace("ADDRESS", address)
        yield fail(expected=EXPECTED, observed=f"{address} is on {some(nodes)}", remedy=remedy)
    if unread:
        yield unknown(expected=EXPECTED, observed=f"the addresses of {some(unread)} were not read")
    elif owners and not twice:
        yield ok(expected=EXPECTED, observed=f"{plural(len(owners), 'address', 'addresses')}, each on one node")


CHECK = Check(
    name="address_unique",
    title="no duplicate rail address",
    scope="cluster",
    needs=(ip_addr.PROBE,),
    judge=judge,
    doc=__doc__,
    essential=True,
)
