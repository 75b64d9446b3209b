"""Lowest, highest and mean value of a minute, and of hours and days from minutes.

Complete hours have a file of their own, so that a chart of weeks does not read every minute. Its rows are the time of
the hour, the numbers of its first and last chunk, the number of rows in them, and the roll-up of every series. An hour
that is missing there is computed from the chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from railbed.model.meters import MISSING, Meter, SeriesKey
from railbed.store.series.chunk import Rollups
from railbed.store.series.files import RowFile, RowFormat
from railbed.store.series.rates import SECONDS, Floats, Integers, Rollup, Samples, by_time, is_gap, meter_of, values_of


class MinuteRollup:
    """Computes the roll-up of each minute of a table; a counter's first rate is since the last row before."""

    def __init__(self, series: Sequence[SeriesKey]) -> None:
        self._meters = [meter_of(item.meter) for item in series]
        self._gauges = np.flatnonzero([meter.kind == "gauge" for meter in self._meters])
        self._scales = np.array([meter.scale for meter in self._meters])
        self._last: tuple[Floats, Integers] | None = None
        self._number = -1

    def next(self, number: int, times: Floats, values: Integers) -> Rollups:
        """Return the roll-up of the next minute, from its rows.

        If minutes of other tables are between it and the last one, its first rate is unknown here.
        """
        before = self._last if number == self._number + 1 else None
        self._number, self._last = number, (times[-1:].copy(), values[-1:].copy())
        if before is not None:
            times, values = np.concatenate((before[0], times)), np.concatenate((before[1], values))
        first = int(before is not None)
        result = np.full((3, len(self._meters)), np.nan)
        steps = np.diff(values, axis=0)
        usual = ~is_gap(times)
        if usual.any():
            result[:] = _summary(steps[usual] / np.diff(times)[usual, None]) * self._scales
        if len(self._gauges):
            result[:, self._gauges] = _summary(values[first:, self._gauges]) * self._scales[self._gauges]
        unusual = values.min(axis=0) == MISSING
        if len(steps):
            unusual |= steps.min(axis=0) < 0
            unusual[self._gauges] &= values[:, self._gauges].min(axis=0) == MISSING
        for column in np.flatnonzero(unusual):
            samples = Samples(times, np.ascontiguousarray(values[:, column]))
            result[:, column] = _of_known(values_of(self._meters[column], samples)[first:])
        return result.astype(np.float32)


def _summary(values: Floats | Integers) -> Floats:
    """Return lowest, highest and mean of each column."""
    return np.stack((values.min(axis=0), values.max(axis=0), values.mean(axis=0)))


def _of_known(values: Floats) -> Floats:
    """Return lowest, highest and mean of the values that are not NaN; NaN if all are."""
    known = values[~np.isnan(values)]
    return _summary(known) if len(known) else np.full(3, np.nan)


def combine(rollups: Rollups, weights: Floats) -> Floats:
    """Return the roll-up of several, by kind and column; `rollups` are by chunk, kind and column."""
    known = np.where(np.isnan(rollups[:, 2]), 0.0, weights[:, None])
    total = known.sum(axis=0)
    sums = (np.nan_to_num(rollups[:, 2]) * known).sum(axis=0)
    mean = np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)
    return np.stack((np.fmin.reduce(rollups[:, 0]), np.fmax.reduce(rollups[:, 1]), mean))


def of_samples(meter: Meter, samples: Samples, after: float, seconds: float) -> tuple[Rollup, Floats]:
    """Return the roll-up of the samples after a time, and the number of values in each span."""
    times, values = by_time(samples.times, values_of(meter, samples))
    later = times > after
    times, values = times[later], values[later]
    return merge(Rollup(times, values, values, values), np.isfinite(values).astype(np.float64), seconds)


def merge(parts: Rollup, weights: Floats, seconds: float) -> tuple[Rollup, Floats]:
    """Return longer spans from shorter ones (in the order of time), and their weights."""
    if not len(parts.times):
        return parts, weights
    spans = np.floor(parts.times / seconds)
    begins = np.flatnonzero(np.concatenate(([True], spans[1:] != spans[:-1])))
    weights = np.where(np.isfinite(parts.mean), weights, 0.0)
    total = np.add.reduceat(weights, begins)
    sums = np.add.reduceat(np.where(weights > 0, parts.mean, 0.0) * weights, begins)
    means = np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)
    low, high = np.fmin.reduceat(parts.low, begins), np.fmax.reduceat(parts.high, begins)
    return Rollup(spans[begins] * seconds, low, high, means), total


HEAD = 3
HOUR = SECONDS["hour"]


def hour_format(columns: int, checksum: int) -> RowFormat:
    """Return the format of the rows for a table with so many series."""
    return RowFormat(HEAD + (3 * columns + 1) // 2, checksum)


class HourRollup:
    """Collects the roll-ups of chunks, and returns a row when an hour is complete."""

    def __init__(self, columns: int, checksum: int) -> None:
        self._format = hour_format(columns, checksum)
        self._hour = -1.0
        self._numbers: list[int] = []
        self._rows: list[int] = []
        self._rollups: list[Rollups] = []

    def add(self, number: int, time: float, rows: int, rollup: Rollups) -> bytes:
        """Add a chunk; return the hour before it, as a row, if it is the first of another one."""
        hour = time // HOUR * HOUR
        row = self._row() if self._numbers and (hour != self._hour or number != self._numbers[-1] + 1) else b""
        if row or not self._numbers:
            self._hour, self._numbers, self._rows, self._rollups = hour, [], [], []
        self._numbers.append(number)
        self._rows.append(rows)
        self._rollups.append(rollup)
        return row

    def _row(self) -> bytes:
        weights = np.array(self._rows, np.float64)
        rollup = combine(np.stack(self._rollups), weights).astype("<f4").reshape(-1)
        words = np.concatenate((rollup, np.zeros(len(rollup) % 2, "<f4"))).view("<i8")
        return self._format.pack(self._hour, [self._numbers[0], self._numbers[-1], sum(self._rows), *words.tolist()])


class HourFile:
    """The hours of a table that are complete."""

    def __init__(self, path: Path, columns: int, checksum: int) -> None:
        self._rows = RowFile(path, hour_format(columns, checksum))
        self._columns = columns
        self.covered: set[int] = set()
        """Numbers of the chunks whose hours are here."""

    def refresh(self) -> None:
        """Read the hours that are new."""
        before = len(self._rows.times)
        if self._rows.refresh():
            for first, last in self._rows.columns[:2, before:].T.tolist():
                self.covered.update(range(max(0, first), min(last, first + 10_000) + 1))

    def column(self, column: int) -> tuple[Floats, Integers, Rollups]:
        """Return the times of the hours, their numbers of rows, and the roll-ups of a column."""
        places = [divmod(kind * self._columns + column, 2) for kind in range(3)]
        parts = [np.ascontiguousarray(self._rows.columns[HEAD + word]).view("<f4")[half::2] for word, half in places]
        return self._rows.times, self._rows.columns[2], np.stack(parts)
