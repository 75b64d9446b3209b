"""Splits of the global batch as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.text.amount import duration
from railbed.train.shares.balance import Cost

MOST_NAMED = 8
ABOUT_EQUAL = 1.25
"""Two ranks whose speeds differ by less count as equally fast."""


def split_words(names: Sequence[str], counts: Sequence[int], paces: Sequence[float]) -> str:
    """Describe the split and its reason: `node1 takes 12 of 16 sequences, node2 4: node1 was measured …`"""
    parts = [f"{name} {count}" for name, count in zip(names[1:MOST_NAMED], counts[1:], strict=False)]
    more = len(names) - MOST_NAMED
    rest = [f"{more} more {sum(counts[MOST_NAMED:])} together"] if more > 0 else []
    taken = ", ".join([f"{names[0]} takes {counts[0]} of {sum(counts)} sequences", *parts, *rest])
    even = max(counts) - min(counts) <= 1
    return f"{taken}: {_why(names, paces, even=even)}"


def cost_words(names: Sequence[str], cost: Cost | None) -> str:
    """Return a sentence about the rank that slows the others down; empty if there is none."""
    if cost is None:
        return ""
    with_it, without = (duration(seconds) for seconds in (cost.seconds, cost.without))
    return (
        f"{names[cost.rank]} slows training down: computing and summing take about {with_it} of a step with it, and "
        f"about {without} without it"
    )


def _why(names: Sequence[str], paces: Sequence[float], *, even: bool) -> str:
    fastest, slowest = paces.index(min(paces)), paces.index(max(paces))
    ratio = paces[slowest] / paces[fastest]
    if even and ratio < ABOUT_EQUAL:
        return "measured about equally fast"
    return f"{names[fastest]} was measured {ratio:.1f} times as fast as {names[slowest]}"
