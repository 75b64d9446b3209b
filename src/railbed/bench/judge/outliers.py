"""Against the others: which measurements lag behind their like, and what they have in common.

The good ones are found from the best on, not around the middle: one slow port of four nodes, or one slow rail of two,
is half of all measurements. What lags is put down to the smallest thing that explains it: a rail, a node, a node's
port, one direction of a port; where nothing does, the pairs are named one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from railbed.model.statistics import median

SLOW = 0.85
"""Below this share of the last of the good ones, a measurement lags behind."""
FEWEST = 3
"""Measurements that are needed to tell one from the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement between two ports of a rail."""

    source: str
    target: str
    rail: str
    value: float
    best: float | None = None
    """The shortest of the single times behind a latency; None where there are none."""
    trials: tuple[int, ...] = ()
    """Where the value comes from: its middle, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """Something that lags behind, and by how much."""

    kind: str
    """rail, port, node, sends, receives, or pair."""
    name: str
    """The rail; `node/rail` of a port; the node; `a > b on rail` of a pair."""
    samples: tuple[Sample, ...]
    usual: float
    """What the others do."""


def find_outliers(samples: Sequence[Sample], *, higher_is_better: bool) -> list[Outlier]:
    """Return what lags behind, and as few names for it as explain it."""
    # By ratios: half and a tenth of what others do are far apart, however wide those lie.
    sign = 1 if higher_is_better else -1
    ranks = {sample: sign * math.log(sample.value) for sample in samples if sample.value > 0}
    ordered = sorted(ranks.values())
    if len(ordered) < FEWEST:
        return []
    last = last_of_the_good(ordered)
    slow = [sample for sample, rank in ranks.items() if rank < last]
    usual = math.exp(sign * median([rank for rank in ordered if rank >= last]))
    good = [sample.best for sample, rank in ranks.items() if rank >= last and sample.best is not None]
    return _explained([sample for sample in slow if _is_always_slow(sample, usual, good)], samples, usual)


def last_of_the_good(ordered: Sequence[float]) -> float:
    """Return the lowest of those that are alike: below it is a gap, wider than they lie apart themselves.

    The better quarter is always among them. Without such a gap all are alike.
    """
    quarter = min(len(ordered) - 1, math.ceil(0.75 * len(ordered)) - 1)
    for at in range(quarter, 0, -1):
        gap = ordered[at] - ordered[at - 1]
        if gap > max(-math.log(SLOW), ordered[-1] - ordered[at]):
            return ordered[at]
    return ordered[0]


def _is_always_slow(sample: Sample, usual: float, good: Sequence[float]) -> bool:
    """Whether the best of a way lags half as much as its middle: a path that is quick at times met a busy moment."""
    if not sample.best or not good:
        return True
    return math.log(sample.best / median(good)) > math.log(sample.value / usual) / 2


Key = Callable[[Sample], Iterable[Hashable]]
CAUSES: tuple[tuple[str, Key], ...] = (
    ("rail", lambda one: [one.rail]),
    ("node", lambda one: [one.source, one.target]),
    ("port", lambda one: [f"{one.source}/{one.rail}", f"{one.target}/{one.rail}"]),
    ("receives", lambda one: [f"{one.target}/{one.rail}"]),
    ("sends", lambda one: [f"{one.source}/{one.rail}"]),
)
"""From the widest cause on: a rail is blamed only where all of it is slow, and others are not."""


def _explained(slow: Sequence[Sample], samples: Sequence[Sample], usual: float) -> list[Outlier]:
    """Take the cause that explains most until nothing slow is left."""
    left, found = list(slow), []
    while left:
        cause = max(_causes(left, slow, samples), key=lambda one: len(one.samples), default=None)
        if cause is None:
            break
        found.append(Outlier(kind=cause.kind, name=cause.name, samples=cause.samples, usual=usual))
        left = [sample for sample in left if sample not in cause.samples]
    pairs = [(f"{one.source} > {one.target} on {one.rail}", one) for one in left]
    return found + [Outlier(kind="pair", name=name, samples=(one,), usual=usual) for name, one in pairs]


def _causes(left: Sequence[Sample], slow: Sequence[Sample], samples: Sequence[Sample]) -> Iterable[Outlier]:
    """Yield what could be at fault: all its measurements are slow, at least two, and not all there are."""
    for kind, key in CAUSES:
        for name in dict.fromkeys(name for sample in left for name in key(sample)):
            touched = [sample for sample in samples if name in key(sample)]
            if 1 < len(touched) < len(samples) and all(sample in slow for sample in touched):
                explains = tuple(sample for sample in left if sample in touched)
                if explains and _is_more_than_one(kind, touched):
                    yield Outlier(kind=kind, name=str(name), samples=explains, usual=0.0)


def _is_more_than_one(kind: str, touched: Sequence[Sample]) -> bool:
    """A node or port shows only against several others; of two nodes it cannot be told which is at fault."""
    if kind == "rail":
        return True
    return len({frozenset((one.source, one.target)) for one in touched}) > 1
