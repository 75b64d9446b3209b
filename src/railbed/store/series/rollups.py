"""Lowest, highest and mean value of a minute, and of hours and days from minutes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railbed.model.series import MISSING, Meter, Series
from railbed.store.series.chunk import Rollups
from railbed.store.series.data import Floats, Integers, Rollup, Samples, meter_of
from railbed.store.series.rates import is_gap, values_of


class MinuteRollup:
    """Computes the roll-up of each minute of a table; a counter's first rate is since the last row before."""

    def __init__(self, series: Sequence[Series]) -> None:
        meters = [meter_of(item.meter) for item in series]
        self._meters = meters
        self._is_counter = np.array([meter.kind == "counter" for meter in meters])
        self._scales = np.array([meter.scale for meter in meters])
        self._last: tuple[Floats, Integers] | None = None

    def next(self, times: Floats, values: Integers) -> Rollups:
        """Return the roll-up of the next minute, from its rows."""
        before = self._last
        self._last = times[-1:].copy(), values[-1:].copy()
        if before is None:
            return summarise(self._read(times, values))
        return summarise(self._read(np.concatenate((before[0], times)), np.concatenate((before[1], values)))[1:])

    def _read(self, times: Floats, values: Integers) -> Floats:
        """Return the values that people read, by row and column."""
        result: Floats = values * self._scales
        counts = values.view(np.uint64)
        grown = counts[1:] - counts[:-1]
        fell = (counts[1:] < counts[:-1]).any(axis=0) | (values == MISSING).any(axis=0)
        plain = self._is_counter & ~fell
        seconds = np.where(is_gap(times), np.nan, np.diff(times))
        result[1:, plain] = grown[:, plain] / seconds[:, None] * self._scales[plain]
        result[0, plain] = np.nan
        for column in np.flatnonzero(fell):
            result[:, column] = values_of(self._meters[column], Samples(times, values[:, column].copy()))
        return result


def summarise(values: Floats) -> Rollups:
    """Return lowest, highest and mean of each column; NaN if all its values are."""
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return np.stack((np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0), means)).astype(np.float32)


def of_samples(meter: Meter, samples: Samples, after: float, seconds: float) -> tuple[Rollup, Floats]:
    """Return the roll-up of the samples after a time, and the number of values in each span."""
    values = values_of(meter, samples)
    later = samples.times > after
    times, values = samples.times[later], values[later]
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
