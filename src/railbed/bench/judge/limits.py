"""Against the hardware: what the slowest part of a path allows, which part that is, and whether enough came through.

Fail below 90 % and warn below 96 % are the thresholds that vendors and clouds publish for RDMA bandwidth; half a round
trip of a write or send may take 2.5 µs over a cable and 5 µs through a switch, on cards that are young enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from railbed.model.record import Verdict

FAIL_BELOW, WARN_BELOW = 0.90, 0.96
DIRECT_US, SWITCHED_US, READ_FACTOR = 2.5, 5.0, 1.8
"""A read is a whole round trip, for which 4.5 µs are published where 2.5 µs are for a write."""
YOUNG = "mlx5_core"
"""The driver of the cards that the published latencies are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A part of a path, and what it carries."""

    part: str
    gbps: float


def slowest(limits: Iterable[Limit]) -> Limit | None:
    """Return the part that bounds all others; the first of equals."""
    return min(limits, key=lambda limit: limit.gbps, default=None)


def judge_bandwidth(gbps: float, limit: Limit) -> Verdict:
    """Judge a bandwidth by what the slowest part allows."""
    share = gbps / limit.gbps
    return Verdict.FAIL if share < FAIL_BELOW else Verdict.WARN if share < WARN_BELOW else Verdict.OK


def latency_limit(*, direct: bool, whole: bool) -> float:
    """Return the published limit in microseconds."""
    return (DIRECT_US if direct else SWITCHED_US) * (READ_FACTOR if whole else 1.0)
