"""What readers return."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from railbed.model.meters import METERS, Meter

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
