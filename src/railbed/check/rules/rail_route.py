"""Packets to the peers of a rail leave through that rail.

What
----
For every peer on a rail, packets from the port's address leave through the port's own interface: by the first table
that the routing policy (`ip rule`) asks for that address and that has a route, and there by the longest prefix.

Why
---
A wrong or missing route sends a rail's traffic through another rail or through the management network. Training then
works, but at the speed of a 1 Gb/s port, or all rails share one link while the others stay idle.

Fix
---
Give the port its address with the rail's prefix: the kernel then adds the route. Remove a static route that
contradicts it (`ip route get PEER` shows which one is used).

Source
------
ip-route(8): the longest prefix wins, then the least metric. ip-rule(8): the rules decide which table is asked first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from railbed.check.shared.port import ROUTE_PROBES, no_peer, routed_devices, some
from railbed.model.cluster import Port
from railbed.model.text import plural
from railbed.probes import ip_route, ip_rule
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

MOST_PEERS = 64
"""Only this many routes are followed: peers on a rail mostly share one."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Follow the routes to all peers and report the first that is wrong."""
    netdev = port.port.netdev
    peers = list(islice(port.site.cluster.peers(port.node.name, port.port), MOST_PEERS))
    tables = port.read(ip_route.PROBE).tables
    expected = f"routes to {plural(len(peers), 'peer')} through {netdev}"
    if port.node.try_read(ip_rule.PROBE) is not None:
        yield _judge_policy(port, peers, expected)
        return
    wrong = [(name, peer) for name, peer in peers if netdev not in _devices(tables, ip_route.MAIN, peer)]
    if not wrong:
        yield ok(expected=expected, observed=f"through {netdev}")
        return
    peer = wrong[0][1]
    devices = some(_devices(tables, ip_route.MAIN, peer)) or "no route"
    observed = f"{some([name for name, _ in wrong], 2)}: {devices}"
    policy_tables = [table for table in tables if table != ip_route.MAIN and netdev in _devices(tables, table, peer)]
    if policy_tables:
        yield warn(
            expected=expected,
            observed=f"{observed} (table {policy_tables[0]}: {netdev})",
            remedy=f"see which route is used: `ip route get {peer.address} from {port.port.address}`",
        )
    else:
        yield fail(expected=expected, observed=observed, remedy=f"look at `ip route get {peer.address}`")


def _judge_policy(port: PortView, peers: list[tuple[str, Port]], expected: str) -> Judgement:
    """Follow the routes as the kernel does: table after table."""
    netdev = port.port.netdev
    routed = {name: (peer, *(routed_devices(port, peer.address) or ((), ""))) for name, peer in peers}
    wrong = [name for name, (_, devices, _) in routed.items() if netdev not in devices]
    if not wrong:
        others = sorted({table for _, _, table in routed.values()} - {ip_route.MAIN})
        by_table = f" (table {some(others)})" if others else ""
        return ok(expected=expected, observed=f"through {netdev}{by_table}")
    peer, devices, table = routed[wrong[0]]
    by_table = f" (table {table})" if table not in ("", ip_route.MAIN) else ""
    return fail(
        expected=expected,
        observed=f"{some(wrong, 2)}: {some(devices) or 'no route'}{by_table}",
        remedy=f"look at `ip route get {peer.address} from {port.port.address}`",
    )


def _devices(tables: dict[str, ip_route.RoutingTable], name: str, peer: Port) -> tuple[str, ...]:
    route = tables[name].towards(peer.address) if name in tables else None
    return route.devices if route else ()


RULE = Rule(
    name="rail_route",
    title="routes to the peers through the rail",
    scope="port",
    stage="rail",
    needs=ROUTE_PROBES,
    judge=judge,
    unless=no_peer,
    doc=__doc__,
    at_restart=True,
)
