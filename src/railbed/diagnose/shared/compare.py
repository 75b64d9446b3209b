"""Nodes compared with each other at the same time.

A busy machine slows down all nodes of a lab, a busy switch all nodes of a rail. Only what sets one apart blames it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from railbed.rules.signal import Numbers, Signal

K = TypeVar("K")
SMOOTHED = 3
"""Samples that a smoothed value is the mean of: a second may have only a few packets."""


def at(times: Numbers, signal: Signal) -> Numbers:
    """Return the values of a series at other times; NaN where it has none near."""
    known = np.isfinite(signal.values)
    if not known.any():
        return np.full(len(times), np.nan)
    sampled = signal.times[known]
    after = np.clip(np.searchsorted(sampled, times), 0, len(sampled) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(sampled[before] - times) < np.abs(sampled[after] - times), before, after)
    values: Numbers = signal.values[known][nearest].astype(np.float64)
    values[np.abs(sampled[nearest] - times) > 2 * signal.interval] = np.nan
    return values


def others_at(name: K, signals: Mapping[K, Signal]) -> Numbers:
    """Return the median of the other series at the times of one; NaN where none of them is known."""
    times = signals[name].times
    values = np.array([at(times, signal) for key, signal in signals.items() if key != name])
    return middles(values) if len(values) else np.full(len(times), np.nan)


def middles(values: Numbers) -> Numbers:
    """Return the median of each column, as far as it is known."""
    result = np.full(values.shape[1], np.nan)
    known = np.isfinite(values).any(axis=0)
    if known.any():
        result[known] = np.nanmedian(values[:, known], axis=0)
    return result


def smoothed(values: Numbers) -> Numbers:
    """Return the mean of each value and its neighbours, as far as they are known."""
    if not len(values):
        return values
    sides = np.pad(values.astype(np.float64), SMOOTHED // 2, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(sides, SMOOTHED)
    known = np.isfinite(windows)
    means = np.where(known, windows, 0.0).sum(axis=1) / np.maximum(1, known.sum(axis=1))
    return np.where(np.isfinite(values), means, np.nan)
