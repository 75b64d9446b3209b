"""A full-size packet reaches every peer on the rail without fragmentation.

What
----
`ping` with don't-fragment and the rail's MTU (its `mtu`, else the policy's `host_mtu`) is answered by the peers on the
rail; a small packet distinguishes a path with a lower MTU from no path at all. On a rail of more than eight ports each
node tests its neighbours in the cluster file and those half the rail away, which covers every port in both directions;
`--all-pairs` tests all. Pings without an answer in time are repeated, alone and with a longer time-out.

Why
---
Both ends can have MTU 9000 while the switch between them does not: then small packets pass and the RDMA packets of a
gradient bucket are dropped without a trace. The rendezvous works, the first all-reduce hangs, and the log shows only a
time-out.

Fix
---
If the answer names a smaller MTU, set that interface (`ip link set dev IF mtu 9000`). If only the full-size packet
gets no answer, look at the peer's interface and at the switch: `mtu 9216` on the ports and in the network-qos
policy.

Source
------
ping(8) of iputils, option `-M do`. An IPv4 packet is 28 bytes longer than the payload, an IPv6 packet 48.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from railbed.check.shared.card import CARD_PROBES, card_of
from railbed.check.shared.port import group_names, no_peer, some
from railbed.model.cluster import Port
from railbed.model.text import plural
from railbed.probes import ping_mtu
from railbed.probes.ping_mtu import Ping
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

Pings = dict[tuple[IPv4Address | IPv6Address, int], Ping]
FINE, UNTOLD, SMALL_ONLY = "passes", "inconclusive", "small passes"
LOOK_HERE = "raise the MTU of this interface (see mtu), or of the hop that reported it"
LOOK_BEYOND = "look at the MTU of the peer's interface, then of the switch: `mtu 9216` on its ports and in network-qos"
NO_PATH = "look at link_up and rail_address of both ends, then at the switch port and its VLAN"


def judge(port: PortView) -> Iterator[Judgement]:
    """Gather the outcomes of the pings to each peer; one finding lists all failures."""
    mtu = port.mtu
    if card_of(port).infiniband_link and port.rail.mtu is None:
        yield skip("IPoIB, and the rail sets no MTU: see mtu")
        return
    own, excess = _pings(port)
    up = port.site.nodes_by_name
    results = {}
    for name, peer in _list_peers(port, own):
        small = own.get((peer.address, ping_mtu.small_size(peer.address)))
        result = _result(small, own.get((peer.address, mtu)), mtu)
        # The rule `reachable` reports a node that does not even answer SSH once; its peers do not repeat it.
        if name in up or result == FINE:
            results[name if name not in results else f"{name}/{peer.netdev}"] = result
    yield _summary(results, f"{mtu} bytes to {plural(len(results), 'peer')}", _evidence(own.values()), excess)


def _pings(port: PortView) -> tuple[Pings, str]:
    """Return the last ping of each kind to each peer, and why repeated time-outs prove nothing, if so."""
    first, again = port.read(ping_mtu.PROBE), port.node.try_again(ping_mtu.PROBE)
    pings = first.pings + (again.pings if again else ())
    own = {(ip_address(ping.address), ping.size): ping for ping in pings if ping.netdev == port.port.netdev}
    return own, again.load.excess if again and again.load else ""


def _list_peers(port: PortView, own: Pings) -> list[tuple[str, Port]]:
    """Return the peers that are to be tested, and others that were tested as well."""
    pairs, name = port.site.pairs, port.node.name
    wanted = {pair.peer_port.address for pair in pairs.of(name) if pair.port == port.port}
    return pairs.peers_at(name, port.port, wanted.union(address for address, _ in own))


def _summary(results: dict[str, str], expected: str, evidence: str, excess: str) -> Judgement:
    wrong = {name: result for name, result in results.items() if result not in (FINE, UNTOLD)}
    late = [name for name, result in wrong.items() if not result.startswith("MTU")] if excess else []
    untold = [name for name, result in results.items() if result == UNTOLD]
    if not results:
        return skip("no peer on this rail is up")
    if late and len(late) == len(wrong):
        return unknown(
            expected=expected,
            observed=f"{some(late)}: no answer in time, but this node is {excess}",
            remedy="check again when the node is less busy",
            evidence=evidence,
        )
    if wrong:
        groups = group_names(wrong)
        observed = "; ".join(f"{some(names, 2)}: {result}" for result, names in groups.items())
        remedy = "; ".join(dict.fromkeys(_remedy(result) for result in groups))
        return fail(expected=expected, observed=observed, remedy=remedy, evidence=evidence)
    if untold:
        return unknown(expected=expected, observed=f"{some(untold)}: ping could not be sent", evidence=evidence)
    return ok(expected=expected, observed="answered")


def _result(small: Ping | None, full: Ping | None, mtu: int) -> str:
    if full is None or full.outcome == "not_sent":
        return UNTOLD
    if full.outcome == "reply":
        return FINE
    if full.outcome == "too_long":
        return f"MTU {full.mtu}" if full.mtu else f"MTU below {mtu}"
    if small is not None and small.outcome == "reply":
        return f"{SMALL_ONLY}, {mtu} does not"
    return "unreachable" if full.outcome == "unreachable" else "no answer"


def _remedy(result: str) -> str:
    if result.startswith("MTU"):
        return LOOK_HERE
    return LOOK_BEYOND if result.startswith(SMALL_ONLY) else NO_PATH


def _evidence(pings: Iterable[Ping]) -> str:
    return "\n".join(f"{ping.address} {ping.size}: {ping.message}" for ping in pings if ping.outcome != "reply")


RULE = Rule(
    name="mtu_path",
    title="full-size packets reach the peers",
    scope="port",
    stage="rail",
    needs=(ping_mtu.PROBE, *CARD_PROBES),
    judge=judge,
    unless=no_peer,
    doc=__doc__,
    essential=True,
)
