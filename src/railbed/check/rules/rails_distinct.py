"""No two rails share a subnet.

What
----
The subnets of the rails do not overlap: neither in the cluster file nor, with the configured prefixes, on any
node.

Why
---
With two ports of a node in one subnet, Linux sends everything for that subnet through the first of them and answers
ARP for both addresses on either (ARP flux). One rail then carries all the traffic and the other none: half of the
bandwidth that was paid for, and drops on the busy port.

Fix
---
Give each rail its own subnet, for example 10.1.0.0/24 and 10.2.0.0/24. If they must share a subnet, policy routing with
one table for each port and `arp_ignore=1`, `arp_announce=2`, `arp_filter=1` is the known workaround.

Source
------
Linux kernel documentation, ip-sysctl (`arp_filter`, `arp_ignore`, `arp_announce`).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from itertools import combinations

from railbed.probes import ip_addr
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView, Site

EXPECTED = "a subnet for each rail"
Network = IPv4Network | IPv6Network


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the rails in pairs, in the file and then on each node."""
    subnets = _subnets(site)
    clashes = list(_clashes(subnets))
    for first, second in clashes:
        yield fail(
            expected=EXPECTED,
            observed=f"{first} {subnets[first]} and {second} {subnets[second]} overlap",
            remedy=f"give {second} another `subnet` in the cluster file and on the nodes",
        )
    if not clashes:
        for node in site.nodes:
            yield from _judge_node(node)


def _subnets(site: Site) -> dict[str, Network]:
    return {name: rail.subnet for name, rail in site.cluster.rails.items() if rail.subnet}


def _judge_node(node: NodeView) -> Iterator[Judgement]:
    if len(node.node.ports) < 2:
        return
    addresses = node.try_read(ip_addr.PROBE)
    if addresses is None:
        yield unknown(expected=EXPECTED, observed="the addresses were not read", subject=node.name)
        return
    networks: dict[str, Network] = {}
    for port in node.ports:
        address = addresses.find(port.port.address).get(port.port.netdev)
        if address:
            networks[port.port.netdev] = address.interface.network
    clashes = list(_clashes(networks))
    for first, second in clashes:
        yield fail(
            expected=EXPECTED,
            observed=f"{first} {networks[first]} and {second} {networks[second]} overlap",
            subject=node.name,
        )
    if networks and not clashes:
        yield ok(expected=EXPECTED, observed=f"{len(networks)} rails, {len(networks)} subnets", subject=node.name)
    elif not networks:
        yield unknown(expected=EXPECTED, observed="no rail address is set: see rail_address", subject=node.name)


def _clashes(networks: dict[str, Network]) -> Iterator[tuple[str, str]]:
    for first, second in combinations(networks, 2):
        a, b = networks[first], networks[second]
        if a.version == b.version and a.overlaps(b):
            yield first, second


def _unless(site: Site) -> str:
    if len(site.cluster.rails) < 2:
        return "fewer than two rails"
    is_compared = any(len(node.ports) > 1 for node in site.cluster.nodes.values())
    return "" if is_compared or any(_clashes(_subnets(site))) else "no node is on two rails"


RULE = Rule(
    name="rails_distinct",
    title="rails in different subnets",
    scope="cluster",
    stage="rail",
    needs=(ip_addr.PROBE,),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
