"""Times in which the network took longer than usual for all ranks, and the peer that caused it, if it is one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from railbed.diagnose.evidence import Evidence, PortView, RailView
from railbed.diagnose.shared.compare import middles
from railbed.diagnose.shared.steps import Work, work_of
from railbed.rules.judgement import Span
from railbed.rules.signal import Numbers, Signal, Truths, middle

RATIO, RATIO_WITH_TRIPS = 2.0, 1.4
"""How many times as long as usual the network takes; less is enough if round trips take longer, too."""
TRIP_RATIO = 2.5
"""How many times as long as usual a round trip takes."""
CLOSE = 0.5
"""Share of the largest such ratio at which another node has the same trouble."""
COMPUTE_RATIO = 2.0
STEP_SHARE = 0.2
"""The additional wait, as a share of a usual step."""
LEAST_SECONDS = 5.0
VOTES = 0.75
"""Share of the samples in which a node names the same peer as the slowest."""


class SlowNetwork(NamedTuple):
    """A time in which the network took longer."""

    span: Span
    seconds: float
    """Per step."""
    usual: float


class SlowPeer(NamedTuple):
    """A node that packets wait in front of."""

    node: str
    netdev: str
    sender: Signal
    """The round-trip times of a node that sends to it."""
    seconds: float
    usual: float


def slow_network(evidence: Evidence) -> list[SlowNetwork]:
    """Return when the network took longer than usual in this run."""
    work = work_of(evidence)
    network = _network(work)
    trips = _trips(evidence, work.waited.edges)
    slow = []
    for span in work.waited.where(_took_longer(work, network, trips), least=LEAST_SECONDS):
        inside = (work.waited.edges[1:] > span.start) & (work.waited.edges[:-1] < span.end)
        slow.append(SlowNetwork(span, middle(network[inside]), middle(network)))
    return slow


def _network(work: Work) -> Numbers:
    """Return how long the network took in each piece of time: the shortest wait, NaN unless most ranks took steps."""
    known = np.isfinite(work.waited.values)
    most = known.sum(axis=0) >= max(1, len({rank.node for rank in work.waited.ranks}) / 2)
    shortest = np.where(known, work.waited.values, np.inf).min(axis=0)
    return np.where(most, shortest, np.nan)


def _took_longer(work: Work, network: Numbers, trips: Numbers) -> Truths:
    """Return the pieces of time in which it did: ranks computed as usual, or round trips took longer as well."""
    computed, usual = work.computed.overall, middle(network)
    longer = (network > RATIO * usual) & (computed < COMPUTE_RATIO * middle(computed))
    longer |= (network > RATIO_WITH_TRIPS * usual) & (trips > TRIP_RATIO)
    result: Truths = longer & (network - usual > STEP_SHARE * work.usual_step)
    return result


def _trips(evidence: Evidence, edges: Numbers) -> Numbers:
    """Return how many times as long as usual round trips took in each piece of time, for the median node."""
    rows = [_ratios(signal, edges) for signal in evidence.all_of("tcp_rtt_us") if signal.usual > 0]
    return middles(np.array(rows)) if rows else np.full(len(edges) - 1, np.nan)


def _ratios(signal: Signal, edges: Numbers) -> Numbers:
    pieces = (Span(float(start), float(end)) for start, end in pairwise(edges))
    return np.array([middle(signal.within(piece)) / signal.usual for piece in pieces])


def slow_peer(rail: RailView, span: Span) -> SlowPeer | None:
    """Return the only node that all nodes with longer round trips name as their slowest peer; None if there is none."""
    trips, peers = rail.try_read("tcp_rtt_us"), rail.try_read("tcp_slowest_peer")
    ratios = {
        node: middle(signal.within(span)) / signal.usual
        for node, signal in trips.items()
        if node in peers and signal.usual > 0 and len(signal.within(span))
    }
    longer = _much_longer(ratios)
    candidates = []
    for port in rail.ports:
        voters = [node for node in longer if node != port.name]
        if voters and all(_names(peers[node], port, span) for node in voters):
            candidates.append((port, trips[max(voters, key=lambda node: middle(trips[node].within(span)))]))
    if len(candidates) != 1:
        return None
    (port, sender), *_ = candidates
    return SlowPeer(port.name, port.port.netdev, sender, middle(sender.within(span)) / 1e6, sender.usual / 1e6)


def _much_longer(ratios: Mapping[str, float]) -> list[str]:
    """Return the nodes whose round trips took longer; those that come close to the worst count, too.

    A rail that is slow for all takes some nodes just above the limit and others just below it.
    """
    worst = max(ratios.values(), default=0.0)
    if not worst > TRIP_RATIO:
        return []
    return [node for node, ratio in ratios.items() if ratio > min(TRIP_RATIO, worst * CLOSE)]


def _names(peers: Signal, port: PortView, span: Span) -> bool:
    """Whether a node's slowest peer was mostly this one."""
    if port.port.address.version != 4:
        return False
    named = peers.within(span) == float(int(port.port.address))
    return bool(len(named)) and float(np.mean(named)) >= VOTES
