"""Hardware limits: what the slowest part of a path allows, which part that is, and whether a result comes close.

Vendors and clouds publish these thresholds for RDMA bandwidth: fail below 90 %, warn below 96 %. Half a round trip of a
write or send may take 2.5 µs over a cable and 5 µs through a switch, on recent cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from railbed.model.record import Verdict

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
