"""Whether a number changed between two runs, from its repeats; inconclusive if there are too few of them.

Numbers are compared by their factor, so that half and twice are equally far: the interval of the difference of the
logarithms, or of the values themselves if some are not above zero. It is Welch's for repeats. Consecutive steps are
similar, so a measure over steps counts as ten values, each the median of a tenth of the steps; if both runs have the
same steps, they are compared in pairs, so that variations which both share from step to step are not noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log
from typing import Literal

from railbed.model.statistics import Difference, median, paired_difference, separate_difference

Outcome = Literal["changed", "unchanged", "unclear"]
CONFIDENCE = 0.99
LEAST_SAMPLES = 3
"""Per run: fewer samples do not show how much they vary."""
MOST_BLOCKS = 10
LEAST = 0.05
"""Smaller changes are not reported, even if there is little noise."""
SAME = 0.10
"""A number did not change if the whole interval is within this share."""
FEW, SCATTERED = "too few samples", "its samples vary too much"
MOST_LOG = 700.0
"""A factor beyond e to this power overflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The judgement of a change."""

    outcome: Outcome
    why: str = ""
    """Why it is unclear."""
    reach: float | None = None
    """The range of chance: as a logarithm of the factor, or in its unit; None if unknown."""
    by_factor: bool = True
    """Whether it was compared by its factor."""


def blocks(values: Sequence[float]) -> list[float]:
    """Return the medians of up to ten intervals of a measure over steps."""
    count = min(len(values), MOST_BLOCKS)
    edges = [round(at * len(values) / count) for at in range(count + 1)] if count else [0]
    return [median(values[first:last]) for first, last in pairwise(edges)]


def factor(before: float, after: float) -> float | None:
    """Return after over before; None if one of them is zero or their signs differ."""
    if not before or not after or (before < 0) != (after < 0):
        return None
    quotient = after / before
    # The quotient of very different numbers is zero or infinite, which has no logarithm.
    return quotient if 0 < quotient < inf else exp(max(-MOST_LOG, min(MOST_LOG, _log_factor(before, after))))


def _log_factor(before: float, after: float) -> float:
    return log(abs(after)) - log(abs(before))


def distance(before: float, after: float) -> float:
    """Return the distance of two values, the same in both directions; from and to zero is farthest."""
    if before == after:
        return 0.0
    return abs(_log_factor(before, after)) if factor(before, after) is not None else inf


def judge(before: Sequence[float], after: Sequence[float], *, paired: bool = False) -> Judged:
    """Judge the samples of two runs, which must be finite; `paired` samples correspond to each other."""
    difference = paired_difference if paired else separate_difference
    by_factor = min(*before, *after) > 0
    if sorted(before) == sorted(after) or len({*before, *after}) == 1:
        return Judged(outcome="unchanged", reach=0.0, by_factor=by_factor)
    if min(len(before), len(after)) < LEAST_SAMPLES:
        return Judged(outcome="unclear", why=FEW, by_factor=by_factor)
    if by_factor:
        outcome, reach = _decide(difference, before, after, log, (log(1 + LEAST), log(1 + SAME)))
        return Judged(outcome=outcome, why=SCATTERED if outcome == "unclear" else "", reach=reach)
    # Squares of very large numbers overflow, so they are scaled down.
    largest = max(abs(value) for value in (*before, *after))
    usual = max(abs(median(before)), abs(median(after))) / largest
    outcome, reach = _decide(difference, before, after, lambda value: value / largest, (LEAST * usual, SAME * usual))
    return Judged(
        outcome=outcome, why=SCATTERED if outcome == "unclear" else "", reach=reach * largest, by_factor=False
    )


def _decide(
    difference: Callable[[Sequence[float], Sequence[float], float], Difference],
    before: Sequence[float],
    after: Sequence[float],
    scaled: Callable[[float], float],
    bounds: tuple[float, float],
) -> tuple[Outcome, float]:
    """Judge on this scale; also return the range of chance on it."""
    least, most = bounds
    first, second = [scaled(value) for value in before], [scaled(value) for value in after]
    interval = difference(first, second, CONFIDENCE)
    reach, moved = interval.high - interval.mean, median(second) - median(first)
    # The interval is that of means, which a single outlier moves, rather than of the medians that are shown.
    if interval.is_seen and abs(moved) > least and moved * interval.mean > 0:
        return "changed", reach
    within = max(abs(interval.low), abs(interval.high), abs(moved)) <= most
    return ("unchanged" if within else "unclear"), reach
