"""Lowest, highest and mean value of a minute, and of hours and days from minutes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railbed.model.meters import MISSING, Meter, SeriesKey
from railbed.store.series.chunk import Rollups
from railbed.store.series.data import Floats, Integers, Rollup, Samples, by_time, meter_of
from railbed.store.series.rates import is_gap, values_of


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
