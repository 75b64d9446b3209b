"""Packets to the peers of a rail leave through that rail.

What
----
For every peer on a rail, the route with the longest prefix in the main table leaves through the port's own interface.

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
ip-route(8): the longest prefix wins, then the least metric. The kernel consults policy routing tables first
(ip-rule(8)).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from railbed.check.shared.port import no_peer, some
from railbed.model.cluster import Port
from railbed.model.text import plural
from railbed.probes import ip_route
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
    wrong = [(name, peer) for name, peer in peers if netdev not in _devices(tables, ip_route.MAIN, peer)]
    expected = f"routes to {plural(len(peers), 'peer')} through {netdev}"
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


def _devices(tables: dict[str, ip_route.RoutingTable], name: str, peer: Port) -> tuple[str, ...]:
    route = tables[name].towards(peer.address) if name in tables else None
    return route.devices if route else ()


RULE = Rule(
    name="rail_route",
    title="routes to the peers through the rail",
    scope="port",
    stage="rail",
    needs=(ip_route.PROBE,),
    judge=judge,
    unless=no_peer,
    doc=__doc__,
    at_restart=True,
)
