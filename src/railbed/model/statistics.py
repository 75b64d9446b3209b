"""Statistics as pure functions: percentiles of samples, median and spread of repeats, bounds.

Bounds are of a number such as the increase of a counter that wraps, saturates or counts packets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
NORMAL_MAD = 1.4826
"""The median absolute deviation times this is the standard deviation of a normal distribution."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest sample that at least `percent` of the samples do not exceed; samples must be sorted."""
    if not ordered:
        raise ValueError("no samples")
    rank = math.ceil(round(percent * len(ordered), 6) / 100)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def distribution(samples: Sequence[float]) -> Mapping[str, float]:
    """Return minimum, mean, maximum, and the percentiles that this number of samples supports."""
    ordered = sorted(samples)
    percentiles = {
        name: percentile(ordered, percent)
        for name, percent in PERCENTILES.items()
        if len(ordered) * (100.0 - percent) >= 99.99  # one sample lies above it
    }
    return {"min": ordered[0], "mean": math.fsum(ordered) / len(ordered), **percentiles, "max": ordered[-1]}


def median(values: Iterable[float]) -> float:
    """Return the median, or NaN for no values."""
    ordered = sorted(values)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return sum(middle) / len(middle) if middle else math.nan


def spread(values: Sequence[float]) -> float:
    """Return the spread of values as a standard deviation that is robust against single outliers."""
    middle = median(values)
    return NORMAL_MAD * median([abs(value - middle) for value in values])


def t_quantile(probability: float, freedom: float) -> float:
    """Return the value that Student's t stays below with this probability, found by halving."""
    low, high = -1e4, 1e4
    for _ in range(64):  # to 1e-15
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def t_probability(value: float, freedom: float) -> float:
    """Return the probability that Student's t stays below a value."""
    tail = _incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return tail if value < 0 else 1 - tail


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return max(0.0, min(1.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    fraction = c = 1.0
    d = 0.0
    for step in range(300):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / ((1 + term * d) or tiny)
        c = (1 + term / c) or tiny
        fraction *= c * d
        if abs(1 - c * d) < 1e-14:
            break
    return front * (fraction - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference between arms B and A."""

    a: float
    b: float
    """The means."""
    mean: float
    low: float
    high: float
    """The bounds of the difference at 95 % confidence."""
    repeats: int
    """Of each arm."""

    @property
    def is_seen(self) -> bool:
        """Whether there is a difference: the interval does not include zero."""
        return self.low > 0 or self.high < 0


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Difference:
    """Return the difference of repeats that were measured in pairs, by Student's t; needs at least two pairs."""
    differences = [second - first for first, second in zip(a, b, strict=True)]
    count = len(differences)
    if count < 2:
        raise ValueError("a difference needs at least two pairs")
    mean = math.fsum(differences) / count
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (count - 1)
    margin = t_quantile((1 + confidence) / 2, count - 1) * math.sqrt(variance / count)
    return Difference(
        a=math.fsum(a) / count, b=math.fsum(b) / count, mean=mean, low=mean - margin, high=mean + margin, repeats=count
    )


def separate_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Difference:
    """Return the difference of repeats that were measured separately, by Welch's t; needs two of each arm."""
    if min(len(a), len(b)) < 2:
        raise ValueError("a difference needs at least two repeats of each arm")
    means = [math.fsum(values) / len(values) for values in (a, b)]
    errors = [_squared_error(values, mean) for values, mean in zip((a, b), means, strict=True)]
    margin = 0.0
    if total := math.fsum(errors):
        shares = [(error / total) ** 2 / (len(values) - 1) for error, values in zip(errors, (a, b), strict=True)]
        margin = t_quantile((1 + confidence) / 2, 1 / math.fsum(shares)) * math.sqrt(total)
    mean = means[1] - means[0]
    return Difference(
        a=means[0], b=means[1], mean=mean, low=mean - margin, high=mean + margin, repeats=min(len(a), len(b))
    )


def _squared_error(values: Sequence[float], mean: float) -> float:
    """Return the variance of the mean of values."""
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


WRAP = 2**32
"""Many counters of RDMA cards have 32 bits: those of the driver wrap, those of the port saturate."""
STUCK = WRAP - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The lower and the upper bound; None if there is no upper bound."""

    least: int
    most: int | None

    @classmethod
    def exactly(cls, value: int) -> Range:
        """Return the span of an exact number."""
        return cls(value, value)

    def __add__(self, other: Range) -> Range:
        most = None if self.most is None or other.most is None else self.most + other.most
        return Range(self.least + other.least, most)

    def times(self, least: int, most: int) -> Range:
        """Return the total size of so many items, each of a size between two bounds."""
        return Range(self.least * least, None if self.most is None else self.most * most)

    def at_most(self, limit: int | None) -> Range:
        """Return the span with its upper bound lowered to a limit."""
        if limit is None or (self.most is not None and self.most <= limit):
            return self
        return Range(min(self.least, limit), limit)


def growth_between(before: int, after: int) -> Range:
    """Return by how much a counter increased between two readings.

    A counter that fell has wrapped at 32 bits if that means an increase of less than half the range; otherwise it was
    reset, and only its count since then is known. More than one wrap between two readings goes unnoticed.
    """
    if after >= before:
        return Range(after - before, None if after == STUCK else after - before)
    wrapped = after + WRAP - before
    if before < WRAP and wrapped < WRAP // 2:
        return Range.exactly(wrapped)
    return Range(after, None)
