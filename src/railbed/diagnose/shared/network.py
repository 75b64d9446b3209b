"""Times in which the network took longer than usual for all ranks, and the peer that caused it, if it is one."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address
from typing import NamedTuple

import numpy as np

from railbed.diagnose.evidence import Evidence, RailView
from railbed.diagnose.shared.steps import Work, work_of
from railbed.diagnose.signal import Numbers, Signal, Span, Truths, middle

RATIO = 2.0
"""How many times as long as usual the network takes."""
COMPUTE_RATIO = 2.0
STEP_SHARE = 0.2
"""The additional wait, as a share of a usual step."""
LEAST_SECONDS = 5.0
PEER_RATIO = 2.5
"""How many times as long as others a round trip takes that blames the peer."""


class SlowNetwork(NamedTuple):
    """A time in which the network took longer."""

    span: Span
    seconds: float
    """Per step."""
    usual: float


class SlowPeer(NamedTuple):
    """A node to which round trips take longer than to others."""

    node: str
    netdev: str
    sender: Signal
    """The round-trip times of the node that sends to it."""
    seconds: float
    others: float


def slow_network(evidence: Evidence) -> list[SlowNetwork]:
    """Return when the network took longer than usual, while ranks computed about as fast as usual."""
    work = work_of(evidence)
    network = _network(work)
    slow = []
    for span in work.waited.where(_took_longer(work, network), least=LEAST_SECONDS):
        inside = (work.waited.edges[1:] > span.start) & (work.waited.edges[:-1] < span.end)
        slow.append(SlowNetwork(span, middle(network[inside]), middle(network)))
    return slow


def _network(work: Work) -> Numbers:
    """Return how long the network took in each piece of time: the shortest wait, NaN unless most ranks took steps."""
    known = np.isfinite(work.waited.values)
    most = known.sum(axis=0) >= max(1, len(work.waited.ranks) / 2)
    shortest = np.where(known, work.waited.values, np.inf).min(axis=0)
    return np.where(most, shortest, np.nan)


def _took_longer(work: Work, network: Numbers) -> Truths:
    computed, usual = work.computed.overall, middle(network)
    longer: Truths = (network > RATIO * usual) & (network - usual > STEP_SHARE * work.usual_step)
    alike: Truths = longer & (computed < COMPUTE_RATIO * middle(computed))
    return alike


def slow_peer(rail: RailView, span: Span) -> SlowPeer | None:
    """Return the only node to which round trips took much longer than to the others; None if there is none."""
    times = {node: signal for node, signal in rail.try_read("tcp_rtt_us").items() if len(signal.within(span))}
    if len(times) < 3:
        return None  # nothing to compare with
    usual = {node: middle(signal.within(span)) for node, signal in times.items()}
    sender = max(usual, key=lambda node: usual[node])
    others = middle([seconds for node, seconds in usual.items() if node != sender])
    peers = rail.try_read("tcp_slowest_peer").get(sender)
    if usual[sender] < PEER_RATIO * others or peers is None or not len(peers.within(span)):
        return None
    address, _ = Counter(peers.within(span).astype(np.int64).tolist()).most_common(1)[0]
    port = next((port for port in rail.ports if port.port.address == ip_address(address)), None)
    if port is None:
        return None
    return SlowPeer(port.name, port.port.netdev, times[sender], usual[sender] / 1e6, others / 1e6)
