"""One series as rules read it, the episodes in which it was unusual, and its chart as evidence.

The rate of a counter at a time is the mean since the sample before it: an episode of a counter begins with the sample
before the first unusual one. NaN is a gap; it is neither usual nor unusual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from railbed.model.meters import Meter, SeriesKey
from railbed.model.text import duration, number, size
from railbed.rules.judgement import Span

Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]
BRIDGE_SECONDS = 10.0
"""Episodes that are closer to each other than this are one."""
BLOCKS = "▁▂▃▄▅▆▇█"
GAP = "·"
WIDTH = 32
LEAST_SECONDS = 5.0
"""Shown before and after an episode, at least."""


@dataclass(frozen=True)
class Signal:
    """The rates of a counter, or the values of a gauge."""

    series: SeriesKey
    meter: Meter
    times: Numbers
    values: Numbers

    @cached_property
    def interval(self) -> float:
        """The usual time between two samples."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else 1.0

    @cached_property
    def usual(self) -> float:
        """The median; NaN if there is no value."""
        return median_of(self.values)

    @cached_property
    def _lasted(self) -> Numbers:
        """How long each value held: the time since the sample before it."""
        return np.diff(self.times, prepend=self.times[:1])

    def during(self, span: Span) -> Truths:
        """Return which samples are in a span."""
        return (self.times > span.start) & (self.times <= span.end)

    def _inside(self, span: Span | None) -> Truths:
        known: Truths = np.isfinite(self.values)
        return known if span is None else known & self.during(span)

    def within(self, span: Span | None) -> Numbers:
        """Return the values in a span that are known."""
        return self.values[self._inside(span)]

    def total(self, span: Span | None = None) -> float:
        """Return by how much a counter grew in a span, as far as it is known."""
        inside = self._inside(span)
        return float(np.sum(self.values[inside] * self._lasted[inside]))

    def covers(self, span: Span) -> bool:
        """Whether values are known for at least half of a span."""
        inside = self._inside(span)
        return float(np.sum(self._lasted[inside])) >= span.seconds / 2

    def mean(self, span: Span | None = None) -> float:
        """Return the mean in a span; NaN if nothing is known of it."""
        values = self.within(span)
        return float(np.mean(values)) if len(values) else float("nan")

    def middle_over_time(self, span: Span) -> float:
        """Return the median of all moments in a span, at each of which the next value counts: long steps are few."""
        inside = self._inside(span)
        order = np.argsort(self.values[inside])
        until = np.cumsum(self._lasted[inside][order])
        if not len(until):
            return float("nan")
        return float(self.values[inside][order][np.searchsorted(until, until[-1] / 2)])

    def peak(self, span: Span | None = None) -> float:
        """Return the highest value in a span; NaN if nothing is known of it."""
        values = self.within(span)
        return float(np.max(values)) if len(values) else float("nan")

    def above(self, threshold: float, *, least: float = 0.0, bridge: float = BRIDGE_SECONDS) -> list[Span]:
        """Return the episodes above a threshold that lasted at least some seconds."""
        return self.where(self.values > threshold, least=least, bridge=bridge)

    def below(self, threshold: float, *, least: float = 0.0, bridge: float = BRIDGE_SECONDS) -> list[Span]:
        """Return the episodes below a threshold that lasted at least some seconds."""
        return self.where(self.values < threshold, least=least, bridge=bridge)

    def where(self, unusual: Truths, *, least: float = 0.0, bridge: float = BRIDGE_SECONDS) -> list[Span]:
        """Return the episodes of unusual values that lasted at least some seconds."""
        first = np.maximum(np.arange(len(self.times)) - 1, 0) if self.meter.kind == "counter" else ...
        starts = self.times[first]
        spans = [
            Span(float(start), float(end)) for start, end in zip(starts[unusual], self.times[unusual], strict=True)
        ]
        return [span for span in join_spans(spans, max(bridge, 2 * self.interval)) if span.seconds >= least]

    @property
    def when(self) -> Span | None:
        """None: it covers the whole run."""
        return None

    def proves(self, span: Span | None) -> str:
        """Return its name, its peak in a span, and its chart around it."""
        per = "/s" if self.meter.kind == "counter" else ""
        where = "/".join(part for part in (self.series.device, self.series.port) if part)
        part = f" of {self.meter.part} {self.series.part}" if self.series.part else ""
        top = self.peak(span)
        text = f"at most {_amount(top, self.meter.unit)}{per}" if np.isfinite(top) else "no sample"
        return f"{self.meter.name}{part} on {where}: {draw_spark(self, span)} {text}"


def median_of(values: Numbers | Sequence[float]) -> float:
    """Return the median of the known values; NaN if there is none."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(np.median(known)) if len(known) else float("nan")


def join_spans(spans: Iterable[Span], bridge: float = BRIDGE_SECONDS) -> list[Span]:
    """Return spans in order of time, those close to each other as one."""
    together: list[Span] = []
    for span in sorted(spans):
        if together and span.start - together[-1].end <= bridge:
            together[-1] = Span(together[-1].start, max(together[-1].end, span.end))
        else:
            together.append(span)
    return together


def sum_growth(signals: Sequence[Signal], span: Span | None = None) -> float:
    """Return by how much counters grew together."""
    return sum(signal.total(span) for signal in signals)


def draw_spark(signal: Signal, span: Span | None = None, width: int = WIDTH) -> str:
    """Draw a series around a span: the highest value of each piece of time, `·` where nothing is known."""
    if not len(signal.times):
        return ""
    shown = span.widen(max(LEAST_SECONDS, span.seconds / 2)) if span else Span(signal.times[0], signal.times[-1])
    start, end = max(shown.start, float(signal.times[0])), min(shown.end, float(signal.times[-1]))
    count = max(1, min(width, round((end - start) / max(signal.interval, 1e-3))))
    edges = np.linspace(start, end, count + 1)
    peaks = [signal.peak(Span(float(low), float(high))) for low, high in pairwise(edges)]
    top = max((peak for peak in peaks if np.isfinite(peak)), default=0.0)
    return "".join(_block(peak, top) for peak in peaks)


def _block(value: float, top: float) -> str:
    if not np.isfinite(value):
        return GAP
    if value <= 0 or top <= 0:
        return BLOCKS[0]
    return BLOCKS[min(len(BLOCKS) - 1, 1 + int(value / top * (len(BLOCKS) - 2)))]


def _amount(value: float, unit: str) -> str:
    """Return a value of a meter with its unit."""
    match unit:
        case "byte":
            return size(value)
        case "s":
            return duration(value)
        case "us":
            return duration(value / 1e6)
        case "1":
            return number(value, 3)
        case _:
            return f"{number(value, 3)} {unit}"
