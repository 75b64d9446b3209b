"""The samples of a run's devices as measurements, for its JSON lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from railbed.model.meters import METERS, SeriesKey
from railbed.model.record import Measurement
from railbed.store.timeline import Timeline

BLOCK = 60
"""Intervals that are read at once."""
LATE_SECONDS = 3.0
"""Samples arrive this late at most; an interval of a run in progress is complete after that."""


class SampledMeasurements:
    """The samples of a run as measurements: the mean of each interval and, if it differs, the highest value."""

    def __init__(self, timeline: Timeline, interval: float) -> None:
        self._timeline = timeline
        self._interval = interval
        self._next = math.floor(timeline.start / interval)

    def complete(self, *, all_of_it: bool = False) -> Iterator[Measurement]:
        """Yield the measurements of intervals that are complete and were not yielded before."""
        late = 0.0 if all_of_it else LATE_SECONDS
        last = (self._timeline.end - late) / self._interval
        end = math.ceil(last) if all_of_it else math.floor(last)
        self._next = min(self._next, end)  # later only if the clock was set back: continue from there
        while self._next < end:
            first, self._next = self._next, min(end, self._next + BLOCK)
            yield from self._block(first, self._next)

    def _block(self, first: int, end: int) -> Iterator[Measurement]:
        rows = []
        for series in self._timeline.series():
            if METERS[series.meter].of != "rank":
                rows += list(self._intervals(series, first, end))
        yield from sorted(rows, key=lambda row: row.time)

    def _intervals(self, series: SeriesKey, first: int, end: int) -> Iterator[Measurement]:
        track = self._timeline.track(series, first * self._interval, end * self._interval)
        present = ~np.isnan(track.values)
        places = np.floor(track.times[present] / self._interval).astype(np.int64)
        values = track.values[present]
        if not values.size:
            return
        meter = METERS[series.meter]
        labels: dict[str, str | int] = {"device": series.device}
        labels |= {name: text for name, text in (("port", series.port), ("part", series.part)) if text}
        starts = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        mean = np.add.reduceat(values, starts) / np.diff(starts, append=values.size)
        mean = np.where(low == high, low, mean)
        for place, average, highest in zip(places[starts].tolist(), mean.tolist(), high.tolist(), strict=True):
            stats = {"mean": average} if average == highest else {"mean": average, "max": highest}
            for stat, value in stats.items():
                yield Measurement(
                    name=meter.recorded_name,
                    value=value,
                    unit=meter.recorded_unit,
                    labels={**labels, "stat": stat},
                    time=place * self._interval,
                )
