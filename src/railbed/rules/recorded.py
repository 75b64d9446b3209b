"""What was recorded while a run used the cluster: its series, its marks, and what its own checks concluded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from railbed.model.meters import SeriesKey
from railbed.model.record import WRONG, Finding
from railbed.rules.judgement import Span

if TYPE_CHECKING:  # numpy: check does without
    from railbed.rules.signal import Signal
    from railbed.store.series.rates import Growth
    from railbed.store.timeline import Mark, Track


class RunTimeline(Protocol):
    """What rules need of `store.timeline.Timeline`."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def unstored(self) -> str: ...
    def series(self) -> Sequence[SeriesKey]: ...
    def track(self, series: SeriesKey) -> Track: ...
    def growth(self, series: SeriesKey) -> Growth: ...
    def starts(self) -> Sequence[float]: ...
    def marks(self) -> Sequence[Mark]: ...
    def findings(self) -> Sequence[Finding]: ...


@dataclass(frozen=True)
class RecordedRun:
    """A run whose series are read once."""

    timeline: RunTimeline

    @cached_property
    def span(self) -> Span:
        """From the start to the end of the run."""
        return Span(self.timeline.start, self.timeline.end)

    @cached_property
    def _signals(self) -> Mapping[str, dict[SeriesKey, Signal | None]]:
        """Every series by its meter; None until it is read."""
        index: dict[str, dict[SeriesKey, Signal | None]] = {}
        for series in self.timeline.series():
            index.setdefault(series.meter, {})[series] = None
        return index

    def series_of(self, meter: str) -> Collection[SeriesKey]:
        """Return every series of a meter."""
        return self._signals.get(meter, {}).keys()

    def signals_of(self, meter: str) -> list[Signal]:
        """Return every series of a meter that has values."""
        return [signal for series in self.series_of(meter) if (signal := self.try_signal(series))]

    def try_signal(self, series: SeriesKey) -> Signal | None:
        """Return a series; None if it was not measured, or never had a value."""
        signals = self._signals.get(series.meter, {})
        if series not in signals:
            return None
        signal = signals[series]
        if signal is None:
            from railbed.rules.signal import Signal

            track = self.timeline.track(series)
            signal = signals[series] = Signal(series, track.meter, track.times, track.values)
        return signal if len(signal.within(None)) else None

    def growth(self, series: SeriesKey) -> Growth | None:
        """Return by how much a counter grew, also over gaps; None if it was not measured."""
        return self.timeline.growth(series) if self.try_signal(series) else None

    def marks(self, *kinds: str) -> Iterator[Mark]:
        """Yield the marks of these kinds."""
        return (mark for mark in self.timeline.marks() if mark.kind in kinds)

    def wrong(self, *checks: str) -> list[Finding]:
        """Return what the run's own checks complained about, other than those at restarts."""
        return [
            finding
            for finding in self.timeline.findings()
            if finding.check in checks and finding.verdict in WRONG and finding.generation is None
        ]
