"""Fewer points, the same picture: lowest and highest value of each interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from railbed.store.series.data import Floats
from railbed.store.series.rates import MOST_INTERVALS, interval
from railbed.store.timeline.data import Drawn


def with_gaps(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return samples with a NaN in each gap, so that no line is drawn across it."""
    usual = interval(times)
    before = np.flatnonzero(np.diff(times) > MOST_INTERVALS * usual)
    if not len(before):
        return times, values
    return np.insert(times, before + 1, times[before] + usual), np.insert(values, before + 1, np.nan)


def with_breaks(times: Floats, values: Floats, breaks: Floats) -> tuple[Floats, Floats]:
    """Return values with a NaN at each time of `breaks` that is between two of them."""
    places = np.searchsorted(times, breaks)
    inside = (places > 0) & (places < len(times))
    return np.insert(times, places[inside], breaks[inside]), np.insert(values, places[inside], np.nan)


def bucketed(drawn: Drawn, start: float, end: float, points: int) -> Drawn:
    """Return at most `points` intervals of equal length, each with its extremes; a gap stays a gap."""
    if len(drawn.times) <= points or not end > start:
        return drawn
    width = (end - start) / points
    numbers = np.clip(((drawn.times - start) / width).astype(np.int64), 0, points - 1)
    begins = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    filled = numbers[begins]
    low, high = np.full(points, np.nan), np.full(points, np.nan)
    low[filled] = np.fmin.reduceat(drawn.low, begins)
    high[filled] = np.fmax.reduceat(drawn.high, begins)
    shown = np.zeros(points, np.bool_)
    shown[filled] = True
    shown |= _inside_gaps(drawn.times, start, width, points)
    times: Floats = start + (np.arange(points, dtype=np.float64) + 0.5) * width
    return Drawn(times[shown], low[shown], high[shown])


def _inside_gaps(times: Floats, start: float, width: float, points: int) -> NDArray[np.bool_]:
    """Return which intervals are completely inside a gap; other empty intervals are due to jitter."""
    before = np.flatnonzero(np.diff(times) > MOST_INTERVALS * interval(times))
    edges = start + np.arange(points + 1) * width
    inside = np.zeros(points, np.bool_)
    for index in before:
        first, last = np.searchsorted(edges, (times[index], times[index + 1]))
        inside[first : last - 1] = True
    return inside
