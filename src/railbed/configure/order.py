"""The order of a node's fixes: each after those it depends on, and equal fixes only once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from graphlib import TopologicalSorter

from railbed.check.book import CHECK_BOOK
from railbed.configure.planned import PlannedFix
from railbed.model.fix import Fix


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
    """Return the place that the rules give it, the lowest if several need it."""
    rank = min(CHECK_BOOK.rules[check].rank for check in planned.checks)
    return rank, planned.checks[0], planned.subject


def _shared(fixes: Sequence[PlannedFix]) -> list[PlannedFix]:
    by_steps: dict[tuple[object, ...], PlannedFix] = {}
    for planned in fixes:
        key = _identity(planned.fix)
        by_steps[key] = by_steps[key].also_for(planned.checks) if key in by_steps else planned
    return list(by_steps.values())


def _identity(fix: Fix) -> tuple[object, ...]:
    return (fix.device, fix.apply)
