"""What bench judges numbers by, without a baseline: comparable measurements, and the limits of the hardware.

The search for outliers starts at the best value rather than the median: one slow port out of four nodes, or one slow
rail out of two, affects half of all measurements. Outliers are attributed to a common cause: a rail, a node, a port,
one direction of a port. Pairs without a common cause are listed one by one.

The limit of a path is that of its slowest part. Vendors and clouds publish thresholds for RDMA bandwidth: fail below 90
%, warn below 96 %. Half a round trip of a write or send may take 2.5 µs over a cable and 5 µs through a switch, on
recent cards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from railbed.model.record import Verdict
from railbed.model.statistics import median

SLOW = 0.85
"""A measurement below this share of the worst good one lags behind."""
MIN_SAMPLES = 3
"""Measurements needed before one of them can be called an outlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSample:
    """One measurement between two ports of a rail."""

    source: str
    target: str
    rail: str
    value: float
    best: float | None = None
    """The shortest of the individual times behind a latency; None for other measurements."""
    trials: tuple[int, ...] = ()
    """The trials behind the value, which is their median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """Something slow, the measurements that show it, and the usual value."""

    kind: str
    """rail, port, node, sends, receives, or pair."""
    name: str
    """The rail; the node; `node/rail` for a port; `a > b on rail` for a pair."""
    samples: tuple[PathSample, ...]
    usual: float
    """The median of the others."""


def find_outliers(samples: Sequence[PathSample], *, higher_is_better: bool) -> list[Outlier]:
    """Return what lags behind, attributed to as few causes as possible."""
    # Logarithms, so that distances are ratios: half the usual bandwidth is as far off as twice the usual latency.
    sign = 1 if higher_is_better else -1
    ranks = {sample: sign * math.log(sample.value) for sample in samples if sample.value > 0}
    ordered = sorted(ranks.values())
    if len(ordered) < MIN_SAMPLES:
        return []
    threshold = worst_good_value(ordered)
    slow = [sample for sample, rank in ranks.items() if rank < threshold]
    usual = math.exp(sign * median([rank for rank in ordered if rank >= threshold]))
    good = [sample.best for sample, rank in ranks.items() if rank >= threshold and sample.best is not None]
    return _explain([sample for sample in slow if _is_always_slow(sample, usual, good)], samples, usual)


def worst_good_value(ordered: Sequence[float]) -> float:
    """Return the lowest value above the first gap that is wider than the spread of all values above it.

    The best quarter always counts as good. Without such a gap all values do.
    """
    quarter = min(len(ordered) - 1, math.ceil(0.75 * len(ordered)) - 1)
    for index in range(quarter, 0, -1):
        gap = ordered[index] - ordered[index - 1]
        if gap > max(-math.log(SLOW), ordered[-1] - ordered[index]):
            return ordered[index]
    return ordered[0]


def _is_always_slow(sample: PathSample, usual: float, good: Sequence[float]) -> bool:
    """Whether even the best sample lags at least half as much as the median: a path fast at times was busy."""
    if not sample.best or not good:
        return True
    return math.log(sample.best / median(good)) > math.log(sample.value / usual) / 2


Key = Callable[[PathSample], Iterable[Hashable]]
CAUSES: tuple[tuple[str, Key], ...] = (
    ("rail", lambda sample: [sample.rail]),
    ("node", lambda sample: [sample.source, sample.target]),
    ("port", lambda sample: [f"{sample.source}/{sample.rail}", f"{sample.target}/{sample.rail}"]),
    ("receives", lambda sample: [f"{sample.target}/{sample.rail}"]),
    ("sends", lambda sample: [f"{sample.source}/{sample.rail}"]),
)
"""Widest cause first: a rail is blamed only if all of it is slow and other rails are not."""


def _explain(slow: Sequence[PathSample], samples: Sequence[PathSample], usual: float) -> list[Outlier]:
    """Pick the cause that explains the most samples, again and again until nothing is left to explain."""
    left, outliers = list(slow), []
    while left:
        cause = max(_causes(left, slow, samples), key=lambda candidate: len(candidate.samples), default=None)
        if cause is None:
            break
        outliers.append(Outlier(kind=cause.kind, name=cause.name, samples=cause.samples, usual=usual))
        left = [sample for sample in left if sample not in cause.samples]
    for sample in left:
        name = f"{sample.source} > {sample.target} on {sample.rail}"
        outliers.append(Outlier(kind="pair", name=name, samples=(sample,), usual=usual))
    return outliers


def _causes(left: Sequence[PathSample], slow: Sequence[PathSample], samples: Sequence[PathSample]) -> Iterable[Outlier]:
    """Yield possible causes: all of their measurements are slow, there are at least two, and there are others."""
    for kind, key in CAUSES:
        for name in dict.fromkeys(name for sample in left for name in key(sample)):
            touched = [sample for sample in samples if name in key(sample)]
            if 1 < len(touched) < len(samples) and all(sample in slow for sample in touched):
                explains = tuple(sample for sample in left if sample in touched)
                if explains and _has_several_pairs(kind, touched):
                    yield Outlier(kind=kind, name=str(name), samples=explains, usual=0.0)


def _has_several_pairs(kind: str, touched: Sequence[PathSample]) -> bool:
    """Whether a cause is identifiable: a single pair does not show which of its two nodes is at fault."""
    if kind == "rail":
        return True
    return len({frozenset((sample.source, sample.target)) for sample in touched}) > 1


FAIL_BELOW, WARN_BELOW = 0.90, 0.96
DIRECT_US, SWITCHED_US, READ_FACTOR = 2.5, 5.0, 1.8
"""A read is a full round trip: the published limit is 4.5 µs, compared with 2.5 µs for a write."""
PUBLISHED_DRIVER = "mlx5_core"
"""The driver of the cards for which latencies are published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLimit:
    """A part of a path, and its bandwidth."""

    part: str
    gbps: float


def slowest(limits: Iterable[PathLimit]) -> PathLimit | None:
    """Return the slowest part; the first of several equally slow ones."""
    return min(limits, key=lambda limit: limit.gbps, default=None)


def judge_bandwidth(gbps: float, limit: PathLimit) -> Verdict:
    """Judge a bandwidth by the slowest part of its path."""
    share = gbps / limit.gbps
    return Verdict.FAIL if share < FAIL_BELOW else Verdict.WARN if share < WARN_BELOW else Verdict.OK


def latency_limit(*, direct: bool, full_round_trip: bool) -> float:
    """Return the published limit in microseconds."""
    return (DIRECT_US if direct else SWITCHED_US) * (READ_FACTOR if full_round_trip else 1.0)
