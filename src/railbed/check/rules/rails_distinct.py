"""No two rails share a subnet.

What
----
The subnets of the rails do not overlap: neither in the cluster file nor, with the configured prefixes, on any
node. It is a warning if policy routing is in place: for each of these ports, a rule sends what comes from its address
through a table whose routes leave through that port. arp_settings judges who answers ARP for which address.

Why
---
With two ports of a node in one subnet, Linux sends everything for that subnet through the first of them and answers
ARP for both addresses on either (ARP flux). One rail then carries all the traffic and the other none: half of the
bandwidth that was paid for, and drops on the busy port.

Fix
---
Give each rail its own subnet, for example 10.1.0.0/24 and 10.2.0.0/24. If they must share a subnet, policy routing with
one table for each port (`ip rule add from 10.1.0.1 table 101`, `ip route add 10.1.0.0/24 dev eth1 table
101`) and `arp_ignore=1`, `arp_announce=2` is the known workaround.

Source
------
Linux kernel documentation, ip-sysctl (`arp_filter`, `arp_ignore`, `arp_announce`); ip-rule(8); AMD, Instinct cluster
networking guide (a table for each port).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from itertools import combinations, islice

from railbed.check.shared.port import ROUTE_PROBES, routed_devices
from railbed.probes import ip_addr, ip_route
from railbed.rules.judgement import Judgement, fail, ok, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView, PortView, Site

EXPECTED = "a subnet for each rail"
MOST_PEERS = 64
"""Only the routes to this many are followed: peers on a rail mostly share one."""
Network = IPv4Network | IPv6Network


def judge(site: Site) -> Iterator[Judgement]:
    """Compare the rails in pairs, in the file and then on each node."""
    subnets = _subnets(site)
    clashes = list(_clashes(subnets))
    for first, second in clashes:
        on_both = [pair for node in site.nodes if (pair := _ports_on(node, first, second))]
        yield _judge_clash(
            f"{first} {subnets[first]} and {second} {subnets[second]} overlap",
            bool(on_both) and all(map(_are_routed_apart, on_both)),
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
    ports = {port.port.netdev: port for port in node.ports}
    for port in node.ports:
        address = addresses.find(port.port.address).get(port.port.netdev)
        if address:
            networks[port.port.netdev] = address.interface.network
    clashes = list(_clashes(networks))
    for first, second in clashes:
        yield _judge_clash(
            f"{first} {networks[first]} and {second} {networks[second]} overlap",
            _are_routed_apart([ports[first], ports[second]]),
            subject=node.name,
        )
    if networks and not clashes:
        yield ok(expected=EXPECTED, observed=f"{len(networks)} rails, {len(networks)} subnets", subject=node.name)
    elif not networks:
        yield unknown(expected=EXPECTED, observed="no rail address is set: see rail_address", subject=node.name)


def _judge_clash(observed: str, are_routed_apart: bool, *, subject: str = "", remedy: str = "") -> Judgement:
    if are_routed_apart:
        return warn(
            expected=EXPECTED,
            observed=f"{observed}; policy routing keeps them apart",
            subject=subject,
            remedy="it works as long as every node has its rules and tables after a reboot; a subnet for each rail "
            "needs neither",
        )
    return fail(expected=EXPECTED, observed=observed, subject=subject, remedy=remedy)


def _ports_on(node: NodeView, *rails: str) -> list[PortView]:
    """Return a node's ports on rails; nothing if it is not on all of them."""
    ports = [port for port in node.ports if port.port.rail in rails]
    return ports if len({port.port.rail for port in ports}) == len(rails) else []


def _are_routed_apart(ports: list[PortView]) -> bool:
    """Whether packets from each port's address to its peers leave through that port, because of a rule."""
    return all(_is_routed_by_rule(port) for port in ports)


def _is_routed_by_rule(port: PortView) -> bool:
    peers = islice(port.site.cluster.peers(port.node.name, port.port), MOST_PEERS)
    routed = [routed_devices(port, peer.address) or ((), "") for _, peer in peers]
    own = (port.port.netdev,)
    return bool(routed) and all(devices == own and table != ip_route.MAIN for devices, table in routed)


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
    needs=(ip_addr.PROBE, *ROUTE_PROBES),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
