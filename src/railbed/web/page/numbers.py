"""Arrays as short JSON: extremes per bucket, five digits, and the difference between a gap and nothing new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.store.timeline import Drawn
from railbed.web.page.parameters import TimeWindow

Floats = NDArray[np.float64]
DIGITS = 5
GAP = False
"""In place of a bucket whose samples are missing; a bucket between two samples is null instead, and bridged."""


def short(values: Floats) -> Floats:
    """Round to five digits, whole numbers beyond that."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.clip(DIGITS - 1 - np.floor(np.log10(np.abs(values))), 0, 12)
        factor = np.power(10.0, np.where(np.isfinite(places), places, 0))
        return np.rint(values * factor) / factor


def extremes(drawn: Drawn, window: TimeWindow, scale: float) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return the lowest and highest value of every bucket of a window, NaN where it has none, and which are gaps."""
    place = np.floor((drawn.times - window.start) / window.width + 1e-6)
    inside = (place >= 0) & (place < window.buckets)
    index = place[inside].astype(np.int64)
    missing = np.isnan(drawn.low[inside])
    low, high = np.full(window.buckets, np.inf), np.full(window.buckets, -np.inf)
    np.minimum.at(low, index[~missing], drawn.low[inside][~missing] * scale)
    np.maximum.at(high, index[~missing], drawn.high[inside][~missing] * scale)
    empty = low > high
    low[empty] = high[empty] = np.nan
    gaps = np.zeros(window.buckets, bool)
    gaps[index[missing]] = True
    return low, high, gaps & empty


def column(values: Floats, gaps: NDArray[np.bool_]) -> list[Any]:
    """Return values for JSON, from the first to the last bucket that says something."""
    plain: list[Any] = short(values).tolist()
    for place in np.flatnonzero(np.isnan(values)).tolist():
        plain[place] = GAP if gaps[place] else None
    return plain


def points(times: Floats, values: Floats) -> tuple[list[float], list[float | None]]:
    """Return samples for JSON, with None for a gap."""
    rounded = [None if value != value else value for value in short(values).tolist()]  # noqa: PLR0124  (NaN)
    return np.round(times, 3).tolist(), rounded
