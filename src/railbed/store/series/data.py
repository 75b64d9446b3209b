"""What readers return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.model.series import METERS, Meter

Span = Literal["minute", "hour", "day"]
SECONDS: dict[Span, float] = {"minute": 60.0, "hour": 3600.0, "day": 86400.0}

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Samples(NamedTuple):
    """The values of a series, in the order of time; MISSING where the device reported none."""

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


def in_order(parts: Sequence[Samples]) -> Samples:
    """Return samples of several tables as one sequence in the order of time."""
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.times for part in parts]) if parts else np.empty(0)
    values = np.concatenate([part.values for part in parts]) if parts else np.empty(0, np.int64)
    if len(times) > 1 and bool(np.any(np.diff(times) < 0)):
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return Samples(times, values)
