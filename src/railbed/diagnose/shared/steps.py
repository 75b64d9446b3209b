"""The steps of a training by rank, and the times in which a link was down or a device was not sampled.

Steps are joined in pieces of time that are long enough for several of them. A link was down according to the counter of
its changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from railbed.diagnose.shared.compare import middles
from railbed.model.text import duration, plural
from railbed.rules.judgement import Span
from railbed.rules.rule import Unsampled
from railbed.rules.signal import BRIDGE_SECONDS, Numbers, Signal, Truths, join_spans, median_of
from railbed.rules.site import PortView, Site
from railbed.store.series.rates import MOST_INTERVALS, interval, meter_of

WARM_UP = 3
"""Steps after a start that say nothing: connections are set up, memory is allocated, kernels are chosen."""
PIECE_SECONDS, PIECE_STEPS = 2.0, 5
"""A piece of time is as long as both."""


class Rank(NamedTuple):
    """Where a rank ran."""

    node: str
    rank: str


class TimeBins(NamedTuple):
    """A measure of every rank in pieces of time: the median of the steps in each, NaN where there was none."""

    ranks: tuple[Rank, ...]
    edges: Numbers
    values: Numbers
    """By rank and piece."""

    def where(self, unusual: Truths, least: float) -> list[Span]:
        """Return the episodes of pieces that are unusual."""
        starts, ends = self.edges[:-1][unusual], self.edges[1:][unusual]
        width = float(self.edges[1] - self.edges[0])
        spans = join_spans([Span(float(start), float(end)) for start, end in zip(starts, ends, strict=True)], width)
        return [span for span in spans if span.seconds >= least]

    def during(self, span: Span) -> Truths:
        """Return which pieces have a part in a span."""
        return (self.edges[1:] > span.start) & (self.edges[:-1] < span.end)

    @property
    def overall(self) -> Numbers:
        """The median over the ranks in each piece."""
        return middles(self.values)


def steps_of(site: Site, meter: str) -> dict[Rank, Signal]:
    """Return a measure of every rank without its first steps, or end this judgement if there is none."""
    signals = {Rank(signal.series.device, signal.series.part): signal for signal in site.run.signals_of(meter)}
    if not signals:
        raise Unsampled(meter, "any rank: this was no training")
    restarts = [*(mark.time for mark in site.run.marks("restart")), *site.run.timeline.starts()[1:]]
    return {rank: _drop_warm_up(signal, restarts) for rank, signal in signals.items()}


def _drop_warm_up(signal: Signal, restarts: list[float]) -> Signal:
    known = np.isfinite(signal.values)
    times, values = signal.times[known], signal.values[known].copy()
    for start in (times[0] - 1.0, *restarts):
        first = int(np.searchsorted(times, start))
        values[first : first + WARM_UP] = np.nan
    return Signal(signal.series, signal.meter, times, values)


def in_pieces(site: Site, signals: dict[Rank, Signal], usual_step: float) -> TimeBins:
    """Return the measures of all ranks in common pieces of time."""
    width = max(PIECE_SECONDS, PIECE_STEPS * usual_step)
    last = max(float(signal.times[-1]) for signal in signals.values())
    edges = np.arange(site.run.span.start, max(site.run.span.end, last) + width, width)
    values = np.full((len(signals), len(edges) - 1), np.nan)
    for row, signal in enumerate(signals.values()):
        known = np.isfinite(signal.values)
        places = np.searchsorted(edges, signal.times[known], side="left") - 1
        for place in np.unique(places[(places >= 0) & (places < len(edges) - 1)]):
            values[row, place] = np.median(signal.values[known][places == place])
    return TimeBins(tuple(signals), edges, values)


class Work(NamedTuple):
    """How long the ranks computed, and waited for the network, in pieces of time."""

    computed: TimeBins
    waited: TimeBins
    usual_step: float


def work_of(site: Site) -> Work:
    """Return how long ranks computed and waited, or end this judgement if that was not measured."""
    steps, waits = steps_of(site, "step_seconds"), steps_of(site, "allreduce_exposed_seconds")
    usual = median_of([signal.usual for signal in steps.values()])
    if not np.isfinite(usual):
        raise Unsampled("step_seconds", "enough steps")
    both = {rank: signal for rank, signal in waits.items() if rank in steps}
    lasting = in_pieces(site, {rank: steps[rank] for rank in both}, usual)
    waited = in_pieces(site, both, usual)
    return Work(lasting._replace(values=lasting.values - waited.values), waited, usual)


def place_of(rank: Rank, ranks: tuple[Rank, ...]) -> str:
    """Return the subject of a finding about a rank: its node, if that has no other at the same time."""
    alone = len({other.rank for other in ranks}) <= len({other.node for other in ranks})
    return rank.node if alone else f"{rank.node}/rank{rank.rank}"


MISSED = 4
"""Samples in a row that make a silence: a busy machine misses one or two."""


def sampled_times(site: Site, device: str) -> Numbers:
    """Return when a device was sampled; empty if it never was."""
    times: list[Numbers] = []
    for series in site.run.timeline.series():
        if series.device == device and meter_of(series.meter).of != "rank" and (signal := site.run.try_signal(series)):
            times.append(signal.times[np.isfinite(signal.values)])
            if len(times) == 3:  # the series of a device are sampled together
                break
    return np.unique(np.concatenate(times)) if times else np.empty(0)


def parts_of(site: Site) -> list[Span]:
    """Return the times in which the run was in progress: from each start to the last sample before the next one."""
    first, *others = site.run.timeline.starts()
    if not others:
        return [site.run.span]
    devices = (*site.cluster.nodes, *site.cluster.switches)
    sampled = np.unique(np.concatenate([sampled_times(site, device) for device in devices]))
    starts = [first, *sorted(others)]
    before = [_last(sampled, part) for part in pairwise(starts)]
    return [Span(start, max(start, end)) for start, end in zip(starts, [*before, site.run.span.end], strict=True)]


def _last(times: Numbers, part: tuple[float, float]) -> float:
    """Return the last sample between two times; the first of them if there is none."""
    inside = times[(times >= part[0]) & (times < part[1])]
    return float(inside[-1]) if len(inside) else part[0]


def silences(times: Numbers, least: float, parts: Sequence[Span]) -> list[Span]:
    """Return the gaps of at least some seconds between samples, and from the last one to the end, in parts of a run."""
    return [
        silence
        for part in parts
        for silence in _silences(times[(times >= part.start) & (times <= part.end)], least, part.end)
    ]


def _silences(times: Numbers, least: float, end: float) -> list[Span]:
    if len(times) < 2:
        return []
    steps = np.diff(times)
    interval = float(np.median(steps))
    limit = max(least, MISSED * interval)
    ends = np.append(times[1:] - interval, end)  # the first rate after a gap is not known
    return [Span(float(start), float(end)) for start, end in zip(times, ends, strict=True) if end - start >= limit]


def is_only_silent(span: Span, others: Sequence[Numbers]) -> bool:
    """Whether most of the other devices were sampled in a time: otherwise the whole site stood still.

    After a site stood still, devices are sampled again one by one, and the last of them is not to blame.
    """
    sampled = [_longest_silence(times, span) < span.seconds / 2 for times in others if len(times)]
    return bool(sampled) and sum(sampled) > len(sampled) / 2


def _longest_silence(times: Numbers, span: Span) -> float:
    inside = times[(times > span.start) & (times < span.end)]
    return float(np.max(np.diff([span.start, *inside, span.end])))


CHANGES = "net_carrier_changes"
TRAFFIC = 1000.0
"""Bytes per second that only a link that is up can receive."""
COARSE = 2
"""An outage of so many samples or fewer may have been much shorter than the time between them."""


class Outage(NamedTuple):
    """A time in which a link was down at least once."""

    span: Span
    times: int
    """How often it went down in that time."""
    is_sampled: bool = True
    """Whether the node was sampled then; otherwise nobody measured for how long the link was down."""


class _Change(NamedTuple):
    """The state of a link changed between two samples."""

    span: Span
    times: int
    """How often: up to down, or down to up."""
    is_sampled: bool


def outages(port: PortView) -> list[Outage]:
    """Return when a port was down: from an odd number of changes to the next; an even one is a short flap."""
    return [outage for part in parts_of(port.site) for outage in _outages(port, part)]


def _outages(port: PortView, part: Span) -> Iterator[Outage]:
    changes = _changes(port, part)
    down: Outage | None = None
    for change, following in zip_longest(changes, changes[1:]):
        until = following.span.start if following else part.end
        stays_down = (change.times % 2 == 1) == (down is None)
        times = (change.times + (down is None)) // 2
        if stays_down and _carried_traffic(port, Span(change.span.end, until)):
            # It had been down before what is known of it, and came up.
            stays_down, times = False, change.times // 2
        outage = _continue(down, change, times)
        down = outage if stays_down else None
        if outage.times and not stays_down:
            yield outage
    if down is not None:
        yield down._replace(span=Span(down.span.start, part.end))


def _continue(down: Outage | None, change: _Change, times: int) -> Outage:
    """Return an outage that a change begins, or up to which another one lasted."""
    if down is None:
        return Outage(change.span, times, change.is_sampled)
    span = Span(down.span.start, max(down.span.start, change.span.end))
    return Outage(span, down.times + times, down.is_sampled and change.is_sampled)


def _changes(port: PortView, part: Span) -> list[_Change]:
    """Return the changes in a part of the run, also those in gaps: a link that flaps may be why there is one."""
    growth = port.growth(CHANGES)
    if growth is None:
        return []
    begins, ends, counts = growth
    begins = np.minimum(begins, ends)  # the clock may have been set back
    gaps = ends - begins > MOST_INTERVALS * interval(ends)
    changed = (begins >= part.start) & (ends <= part.end) & (counts > 0)
    columns = (begins, ends, counts, gaps)
    changes = [
        _Change(Span(float(begin), float(end)), round(count), not gap)
        for begin, end, count, gap in zip(*(column[changed] for column in columns), strict=True)
    ]
    return [change for change in changes if change.is_sampled or not _was_replaced(port, change.span)]


def _was_replaced(port: PortView, gap: Span) -> bool:
    """Whether an interface began to count anew in a gap, such as after a reboot: its counters cannot be compared."""
    for meter in ("net_rx_bytes", "net_tx_bytes"):
        growth = port.growth(meter)
        if growth is not None:
            inside = (growth.ends > gap.start) & (growth.begins < gap.end)
            if np.isnan(growth.counts[inside]).any():
                return True
    return False


def _carried_traffic(port: PortView, span: Span) -> bool:
    """Whether a port received in a time."""
    received = port.try_signal("net_rx_bytes")
    margin = 2 * received.interval if received else 0.0
    inner = Span(span.start + margin, span.end - margin)
    return received is not None and inner.seconds > 0 and received.mean(inner) > TRAFFIC


def episodes(separate: Sequence[Outage], bridge: float = BRIDGE_SECONDS) -> list[list[Outage]]:
    """Return outages in groups: those close to each other have one cause."""
    groups: list[list[Outage]] = []
    for outage in sorted(separate):
        if groups and outage.span.start - span_of(groups[-1]).end <= bridge:
            groups[-1].append(outage)
        else:
            groups.append([outage])
    return groups


def span_of(episode: Sequence[Outage]) -> Span:
    """Return the time from the first outage of an episode to the end of the last."""
    return Span(min(outage.span.start for outage in episode), max(outage.span.end for outage in episode))


def describe(episode: Sequence[Outage], usual: float, was: str = "was") -> str:
    """Return how often links went down and for how long; `usual` is the time between two samples."""
    times, span = sum(outage.times for outage in episode), span_of(episode)
    measured = [outage for outage in episode if outage.is_sampled]
    seconds = sum(outage.span.seconds for outage in measured)
    bound = "at most " if seconds <= COARSE * usual * len(measured) else ""
    lasted = f"for {bound}{duration(max(seconds, usual))}"
    if times == 1:
        return f"{was} down {lasted}" if measured else f"went down while the node was not sampled for {_seconds(span)}"
    often = f"went down {plural(times, 'time')} within {_seconds(span)}"
    if not measured:
        return f"{often} in which the node was not sampled"
    return f"{often}, {lasted} in all{'' if len(measured) == len(episode) else ' and while the node was not sampled'}"


def _seconds(span: Span) -> str:
    return duration(span.seconds)
