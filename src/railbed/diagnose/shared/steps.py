"""The steps of a training: the measures of each rank, in pieces of time long enough for several steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from railbed.diagnose.evidence import Evidence, Unsampled
from railbed.diagnose.shared.compare import middles
from railbed.rules.judgement import Span
from railbed.rules.signal import Numbers, Signal, Truths, merged, middle

WARM_UP = 3
"""Steps after a start that say nothing: connections are set up, memory is allocated, kernels are chosen."""
PIECE_SECONDS, PIECE_STEPS = 2.0, 5
"""A piece of time is as long as both."""


class Rank(NamedTuple):
    """Where a rank ran."""

    node: str
    rank: str


class Pieces(NamedTuple):
    """A measure of every rank in pieces of time: the median of the steps in each, NaN where there was none."""

    ranks: tuple[Rank, ...]
    edges: Numbers
    values: Numbers
    """By rank and piece."""

    def where(self, unusual: Truths, least: float) -> list[Span]:
        """Return the episodes of pieces that are unusual."""
        starts, ends = self.edges[:-1][unusual], self.edges[1:][unusual]
        width = float(self.edges[1] - self.edges[0])
        spans = merged([Span(float(start), float(end)) for start, end in zip(starts, ends, strict=True)], width)
        return [span for span in spans if span.seconds >= least]

    @property
    def overall(self) -> Numbers:
        """The median over the ranks in each piece."""
        return middles(self.values)


def steps_of(evidence: Evidence, meter: str) -> dict[Rank, Signal]:
    """Return a measure of every rank without its first steps, or end this judgement if there is none."""
    signals = {Rank(signal.series.device, signal.series.part): signal for signal in evidence.all_of(meter)}
    if not signals:
        raise Unsampled(meter, "any rank: this was no training")
    restarts = [*(mark.time for mark in evidence.marks("restart")), *evidence.timeline.starts()[1:]]
    return {rank: _settled(signal, restarts) for rank, signal in signals.items()}


def _settled(signal: Signal, restarts: list[float]) -> Signal:
    known = np.isfinite(signal.values)
    times, values = signal.times[known], signal.values[known].copy()
    for start in (times[0] - 1.0, *restarts):
        first = int(np.searchsorted(times, start))
        values[first : first + WARM_UP] = np.nan
    return Signal(signal.series, signal.meter, times, values)


def in_pieces(evidence: Evidence, signals: dict[Rank, Signal], usual_step: float) -> Pieces:
    """Return the measures of all ranks in common pieces of time."""
    width = max(PIECE_SECONDS, PIECE_STEPS * usual_step)
    last = max(float(signal.times[-1]) for signal in signals.values())
    edges = np.arange(evidence.span.start, max(evidence.span.end, last) + width, width)
    values = np.full((len(signals), len(edges) - 1), np.nan)
    for row, signal in enumerate(signals.values()):
        known = np.isfinite(signal.values)
        places = np.searchsorted(edges, signal.times[known], side="left") - 1
        for place in np.unique(places[(places >= 0) & (places < len(edges) - 1)]):
            values[row, place] = np.median(signal.values[known][places == place])
    return Pieces(tuple(signals), edges, values)


class Work(NamedTuple):
    """How long the ranks computed, and waited for the network, in pieces of time."""

    computed: Pieces
    waited: Pieces
    usual_step: float


def work_of(evidence: Evidence) -> Work:
    """Return how long ranks computed and waited, or end this judgement if that was not measured."""
    steps, waits = steps_of(evidence, "step_seconds"), steps_of(evidence, "allreduce_exposed_seconds")
    usual = middle([signal.usual for signal in steps.values()])
    if not np.isfinite(usual):
        raise Unsampled("step_seconds", "enough steps")
    both = {rank: signal for rank, signal in waits.items() if rank in steps}
    lasting = in_pieces(evidence, {rank: steps[rank] for rank in both}, usual)
    waited = in_pieces(evidence, both, usual)
    return Work(lasting._replace(values=lasting.values - waited.values), waited, usual)


def place_of(rank: Rank, ranks: tuple[Rank, ...]) -> str:
    """Return the subject of a finding about a rank: its node, if that has no other at the same time."""
    alone = len({other.rank for other in ranks}) <= len({other.node for other in ranks})
    return rank.node if alone else f"{rank.node}/rank{rank.rank}"
