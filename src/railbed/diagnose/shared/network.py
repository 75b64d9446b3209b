"""When and where the network was slow: for all ranks, on which rail, by which peer, with pauses or TCP losses.

A pause of the lossless priority stops a port, or its neighbour. TCP segments are lost from node to node, which follows
from what each node sent to each of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from railbed.diagnose.shared.compare import middles
from railbed.diagnose.shared.steps import Work, work_of
from railbed.model.meters import SeriesKey
from railbed.rules.judgement import Span
from railbed.rules.signal import Numbers, Signal, Truths, median_of
from railbed.rules.site import PortView, RailView, Site

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


def slow_network(site: Site) -> list[SlowNetwork]:
    """Return when the network took longer than usual in this run."""
    work = work_of(site)
    network = _network(work)
    spans = work.waited.where(_took_longer(work, network, _trips(site, work.waited.edges)), least=LEAST_SECONDS)
    return [SlowNetwork(span, median_of(network[work.waited.during(span)]), median_of(network)) for span in spans]


def _network(work: Work) -> Numbers:
    """Return how long the network took in each piece of time: the shortest wait, NaN unless most ranks took steps."""
    known = np.isfinite(work.waited.values)
    most = known.sum(axis=0) >= max(1, len({rank.node for rank in work.waited.ranks}) / 2)
    shortest = np.where(known, work.waited.values, np.inf).min(axis=0)
    return np.where(most, shortest, np.nan)


def _took_longer(work: Work, network: Numbers, trips: Numbers) -> Truths:
    """Return the pieces of time in which it did: ranks computed as usual, or round trips took longer as well."""
    computed, usual = work.computed.overall, median_of(network)
    longer = (network > RATIO * usual) & (computed < COMPUTE_RATIO * median_of(computed))
    longer |= (network > RATIO_WITH_TRIPS * usual) & (trips > TRIP_RATIO)
    result: Truths = longer & (network - usual > STEP_SHARE * work.usual_step)
    return result


def _trips(site: Site, edges: Numbers) -> Numbers:
    """Return how many times as long as usual round trips took in each piece of time, for the median node."""
    rows = [_ratios(signal, edges) for signal in site.run.signals_of("tcp_rtt_us") if signal.usual > 0]
    return middles(np.array(rows)) if rows else np.full(len(edges) - 1, np.nan)


def _ratios(signal: Signal, edges: Numbers) -> Numbers:
    pieces = (Span(float(start), float(end)) for start, end in pairwise(edges))
    return np.array([median_of(signal.within(piece)) / signal.usual for piece in pieces])


def slow_peer(rail: RailView, span: Span) -> SlowPeer | None:
    """Return the only node that all nodes with longer round trips name as their slowest peer; None if there is none."""
    trips, peers = rail.try_signals("tcp_rtt_us"), rail.try_signals("tcp_slowest_peer")
    ratios = {
        node: median_of(signal.within(span)) / signal.usual
        for node, signal in trips.items()
        if node in peers and signal.usual > 0 and len(signal.within(span))
    }
    longer = _much_longer(ratios)
    candidates = []
    for port in rail.ports:
        voters = [node for node in longer if node != port.node.name]
        if voters and all(_names(peers[node], port, span) for node in voters):
            candidates.append((port, trips[max(voters, key=lambda node: median_of(trips[node].within(span)))]))
    if len(candidates) != 1:
        return None
    (port, sender), *_ = candidates
    return SlowPeer(port.node.name, port.port.netdev, sender, median_of(sender.within(span)) / 1e6, sender.usual / 1e6)


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


BUSY_SHARE = 0.1
"""Share of the busiest rail's traffic from which another rail counts as used."""


def sent_by(rail: RailView, span: Span | None = None) -> float:
    """Return the bytes per second that the nodes of a rail sent in the mean, over TCP and RDMA."""
    signals = [*rail.try_signals("net_tx_bytes").values(), *rail.try_signals("rdma_tx_bytes").values()]
    means = [signal.mean(span) for signal in signals]
    return sum(mean for mean in means if mean == mean) / max(1, len(rail.ports))  # noqa: PLR0124  (NaN)


def busiest_rail(site: Site, span: Span | None = None) -> RailView | None:
    """Return the rail that sent the most; None if none sent anything."""
    rail = max(site.rails, key=lambda rail: sent_by(rail, span), default=None)
    return rail if rail and sent_by(rail, span) > 0 else None


def used_rails(site: Site) -> list[RailView]:
    """Return the rails that carried a fair part of the run's traffic."""
    rates = {rail.name: sent_by(rail) for rail in site.rails}
    most = max(rates.values(), default=0.0)
    return [rail for rail in site.rails if most > 0 and rates[rail.name] >= BUSY_SHARE * most]


SHARE = 0.01
"""The share of time from which pausing costs bandwidth."""
FRAMES = 100.0
"""Frames per second that are as much, on cards that do not count the time."""
LEAST_PAUSE_SECONDS = 3.0
"""Shorter bursts are what PFC is for."""


def pauses(port: PortView, direction: Literal["rx", "tx"]) -> tuple[Signal, list[Span]]:
    """Return the series, and the episodes with much pausing: received (`rx`) or sent (`tx`) by the card."""
    lasting = port.try_signal(f"pause_{direction}_us", port.lossless)
    if lasting is not None:
        return lasting, lasting.above(SHARE * 1e6, least=LEAST_PAUSE_SECONDS)
    frames = port.signal(f"pause_{direction}_frames", port.lossless)
    return frames, frames.above(FRAMES, least=LEAST_PAUSE_SECONDS)


def amount_of(signal: Signal, span: Span) -> str:
    """Return how much pausing an episode had: a share of time, or frames per second."""
    if signal.meter.unit == "us":
        return f"{signal.mean(span) / 1e4:.0f} % of the time"
    return f"{signal.mean(span):,.0f} frames per second"


SHARE_OF_WORST = 0.25
"""A direction with less than this part of the worst one's share loses nothing: its sender repeats what had arrived,
because acknowledgements are lost on the way back."""
LEAST_AGAIN = 5.0
MOST_NAMED = 3


class PeerTraffic(NamedTuple):
    """What a node sent to another in some time."""

    sender: str
    receiver: str
    segments: float
    again: float
    """Those of them that were sent again, and had not arrived."""

    @property
    def share(self) -> float:
        """Of the segments, the part that was sent again."""
        return self.again / max(1.0, self.segments)

    def __str__(self) -> str:
        return f"{self.sender} → {self.receiver}: {self.share * 100:.1f} % of {self.segments:,.0f} segments"


def directions(site: Site, span: Span) -> list[PeerTraffic]:
    """Return every direction in which something was sent; none if peers were not measured."""
    return [direction for direction in _each(site, span) if direction.segments > 0]


def _each(site: Site, span: Span) -> Iterator[PeerTraffic]:
    nodes = {str(port.address): node for node, port in site.cluster.ports()}
    totals: dict[tuple[str, str], list[float]] = {}
    for sent in site.run.signals_of("tcp_peer_segments"):
        series = sent.series
        again, needless = (
            site.run.try_signal(SeriesKey(series.device, meter, series.port, series.part))
            for meter in ("tcp_peer_retransmits", "tcp_peer_needless")
        )
        if again is not None and series.part in nodes:
            total = totals.setdefault((series.device, nodes[series.part]), [0.0, 0.0])
            total[0] += sent.total(span)
            total[1] += max(0.0, again.total(span) - (needless.total(span) if needless else 0.0))
    for (sender, receiver), (segments, repeated) in totals.items():
        yield PeerTraffic(sender, receiver, segments, repeated)


def lossy_directions(sent: Sequence[PeerTraffic], limit: float) -> list[PeerTraffic]:
    """Return the directions that lose more than a share of what is sent, the worst first."""
    worst = max((direction.share for direction in sent if direction.again >= LEAST_AGAIN), default=0.0)
    least = max(limit, SHARE_OF_WORST * worst)
    lossy = [direction for direction in sent if direction.again >= LEAST_AGAIN and direction.share >= least]
    return sorted(lossy, key=lambda direction: -direction.share)


def name_losses(lossy: Sequence[PeerTraffic], sent: Sequence[PeerTraffic]) -> str:
    """Return where segments are lost: each direction, or how many of them and the worst."""
    if len(lossy) <= MOST_NAMED:
        return "; ".join(map(str, lossy))
    which = "all" if len(lossy) == len(sent) else f"{len(lossy)} of"
    return f"in {which} {len(sent)} directions, at most {lossy[0]}"
