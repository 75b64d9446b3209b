"""Counters as rates, with wraps, resets and gaps: what readers return."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from railbed.model.meters import METERS, MISSING, Meter

Span = Literal["minute", "hour", "day"]
SECONDS: dict[Span, float] = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


class Samples(NamedTuple):
    """The values of a series, in the order in which they were taken; MISSING where the device reported none.

    Times fall where the clock was set back. `by_time` sorts, but only what is no longer a counter: a counter at times
    that overlap would seem to jump up and down.
    """

    times: Floats
    values: Integers


class Rollup(NamedTuple):
    """Lowest, highest and mean value of each span: rates per second of a counter, scaled values of a gauge."""

    times: Floats
    """Where each span begins, on the clock (UTC)."""
    low: Floats
    high: Floats
    mean: Floats


def meter_of(name: str) -> Meter:
    """Return the meter with a name; for a name of a later version, a plain gauge."""
    return METERS.get(name) or Meter(name, "1", "unknown to this version", kind="gauge")


def by_time(times: Floats, values: NDArray[T]) -> tuple[Floats, NDArray[T]]:
    """Return times and values in the order of time."""
    if len(times) > 1 and bool(np.any(np.diff(times) < 0)):
        order = np.argsort(times, kind="stable")
        return times[order], values[order]
    return times, values


MOST_INTERVALS = 3
"""A longer time between two values is a gap: what happened in it is unknown."""
PLAUSIBLE = 2.0
"""A counter that fell has wrapped only if its rate is at most this many times the highest certain one."""


class Growth(NamedTuple):
    """By how much a counter grew from each known value to the next, whatever the time between them."""

    begins: Floats
    ends: Floats
    counts: Floats
    """NaN where it fell."""


def rates(meter: Meter, samples: Samples) -> Floats:
    """Return the rate of a counter per second at each sample, since the one before.

    NaN at the first value, at a missing one, after a gap and where the counter was reset.
    """
    result = np.full(len(samples.times), np.nan)
    if len(samples.values) and samples.values.min() != MISSING:
        result[1:] = _between(samples.times, samples.values, meter.bits)
    else:
        known = np.flatnonzero(samples.values != MISSING)
        result[known[1:]] = _between(samples.times[known], samples.values[known], meter.bits)
    result *= meter.scale
    return result


def growth(samples: Samples) -> Growth:
    """Return the growth of a counter, also over gaps, where its rate is not known."""
    known = samples.values != MISSING
    times, counts = samples.times[known], samples.values[known].view(np.uint64)
    fell = counts[1:] < counts[:-1]
    return Growth(times[:-1], times[1:], np.where(fell, np.nan, (counts[1:] - counts[:-1]).astype(np.float64)))


def apply_scale(meter: Meter, samples: Samples) -> Floats:
    """Return the values of a gauge in its unit; NaN where one is missing."""
    return np.where(samples.values == MISSING, np.nan, samples.values * meter.scale)


def values_of(meter: Meter, samples: Samples) -> Floats:
    """Return what people read: the rates of a counter, the values of a gauge."""
    return rates(meter, samples) if meter.kind == "counter" else apply_scale(meter, samples)


def interval(times: Floats) -> float:
    """Return the usual time between samples, their median; infinite if there are fewer than two."""
    return _usual(np.diff(times))


def is_gap(times: Floats) -> NDArray[np.bool_]:
    """Return, for each sample but the first, whether too much time passed since the one before, or none."""
    return _is_gap(np.diff(times))


def _usual(seconds: Floats) -> float:
    if len(seconds) and not seconds.min() > 0:
        seconds = seconds[seconds > 0]
    middle = len(seconds) // 2
    return float(np.partition(seconds, middle)[middle]) if len(seconds) else np.inf


def _is_gap(seconds: Floats) -> NDArray[np.bool_]:
    return ~((seconds > 0) & (seconds <= MOST_INTERVALS * _usual(seconds)))


def _between(times: Floats, values: Integers, bits: int) -> Floats:
    seconds = np.diff(times)
    uncertain = _is_gap(seconds)
    counts = values.view(np.uint64)
    grown = counts[1:] - counts[:-1]
    fell = counts[1:] < counts[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate: Floats = grown / seconds
        if fell.any():
            rate[fell] = _resolve_falls(rate, counts, seconds, fell, bits, certain=~(fell | uncertain))
    rate[uncertain] = np.nan
    return rate


def _resolve_falls(
    rate: Floats,
    counts: NDArray[np.uint64],
    seconds: Floats,
    fell: NDArray[np.bool_],
    bits: int,
    *,
    certain: NDArray[np.bool_],
) -> Floats:
    """Return the rates where a counter fell: since it wrapped, or NaN if it was reset."""
    largest = np.uint64((1 << bits) - 1)
    grown = ((counts[1:] - counts[:-1])[fell] & largest).astype(np.float64)
    wrapped = grown / seconds[fell]
    # A counter that restarts at zero looks as if it had grown by almost its range.
    limit = PLAUSIBLE * float(np.max(rate[certain])) if np.any(certain) else np.inf
    is_wrap = (counts[:-1][fell] <= largest) & (wrapped <= limit)
    if not np.isfinite(limit):
        is_wrap &= grown <= float(largest) / 4
    return np.where(is_wrap, wrapped, np.nan)
