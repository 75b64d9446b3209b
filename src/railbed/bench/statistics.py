"""Statistics as pure functions: percentiles of samples, the middle and spread of repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
NORMAL_MAD = 1.4826
"""Times the median absolute deviation, this is the standard deviation of what is normally spread."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest sample that at least so many percent of them do not exceed; samples are in order."""
    if not ordered:
        raise ValueError("no samples")
    rank = math.ceil(round(percent * len(ordered), 6) / 100)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def distribution(samples: Sequence[float]) -> Mapping[str, float]:
    """Return minimum, mean, maximum, and those percentiles that so many samples can tell."""
    ordered = sorted(samples)
    told = {
        name: percentile(ordered, percent)
        for name, percent in PERCENTILES.items()
        if len(ordered) * (100.0 - percent) >= 99.99  # one sample lies above it
    }
    return {"min": ordered[0], "mean": math.fsum(ordered) / len(ordered), **told, "max": ordered[-1]}


def median(values: Sequence[float]) -> float:
    """Return the middle value; of two middle ones their mean."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def spread(values: Sequence[float]) -> float:
    """Return how far values lie from their middle, as a standard deviation that single wild ones do not move."""
    middle = median(values)
    return NORMAL_MAD * median([abs(value - middle) for value in values])
