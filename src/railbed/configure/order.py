"""The order of a node's fixes: each after those it depends on, and equal fixes only once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from graphlib import TopologicalSorter

from railbed.configure.planned import PlannedFix
from railbed.model.fix import Fix

RULES = (
    *("tools_installed", "hostname_unique", "hostname_resolves", "memlock", "clock_synchronised", "governor"),
    *("rdma_modules", "link_up", "mtu", "rail_address", "rdma_mtu"),
    *("ets", "buffers", "pfc", "dscp_trust", "dscp_map", "global_pause", "roce_tos", "dcqcn", "cnp_dscp"),
)
"""The usual order, from the machine to the link to what runs over it; other rules follow. A fix that really depends on
another names it (`Fix.after`)."""


def in_order(fixes: Sequence[PlannedFix]) -> tuple[PlannedFix, ...]:
    """Return fixes in the order to apply them; two rules that need the same change share it."""
    unique = sorted(_shared(fixes), key=_rank)
    before = {
        index: {other for other, earlier in enumerate(unique) if set(earlier.checks) & set(planned.fix.after)} - {index}
        for index, planned in enumerate(unique)
    }
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ordered: list[PlannedFix] = []
    ready: list[int] = []
    while sorter.is_active():
        # One at a time, always the first whose dependencies are met: this keeps the usual order as far as possible.
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        first = heapq.heappop(ready)
        ordered.append(unique[first])
        sorter.done(first)
    return tuple(ordered)


def _rank(planned: PlannedFix) -> tuple[int, str, str]:
    known = [RULES.index(check) for check in planned.checks if check in RULES]
    return min(known, default=len(RULES)), planned.checks[0], planned.subject


def _shared(fixes: Sequence[PlannedFix]) -> list[PlannedFix]:
    by_steps: dict[tuple[object, ...], PlannedFix] = {}
    for planned in fixes:
        key = _identity(planned.fix)
        by_steps[key] = by_steps[key].also_for(planned.checks) if key in by_steps else planned
    return list(by_steps.values())


def _identity(fix: Fix) -> tuple[object, ...]:
    return (fix.device, fix.apply)
