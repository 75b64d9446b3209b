"""Splits the global batch by measured speed. Every rank computes the same split, from the same numbers.

Each rank adds two numbers to the sum that ends a step: how long a sequence took, and how long it then waited for the
sum. The sum is the same on all ranks, to the last bit, and so is everything computed from it: all ranks change to the
same split at the same step, without further communication.

Splits of the global batch as sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from railbed.model.text import duration
from railbed.train.data.sampling import deal

SETTLING = 3
"""Steps ignored after a change: caches are cold, and a compiled model may be recompiled."""
FIRST_REVIEW, LONGEST_REVIEW = 5, 80
"""Steps that a review takes medians over. Each review covers twice as many as the one before."""
GAIN = 0.1
"""How much shorter the slowest rank's part of a step must get for the split to change."""
COST = 0.05
"""How much shorter a step must be without a rank for that rank to be reported."""


@dataclass(frozen=True, slots=True)
class Split:
    """How many sequences of every global batch each rank takes, and the speeds it is based on."""

    counts: tuple[int, ...]
    paces: tuple[float, ...]
    """Seconds for a sequence, by rank."""

    @classmethod
    def by_pace(cls, sequences: int, paces: Sequence[float]) -> Split:
        """Return the split that finishes first; every rank gets work, so that its speed stays known."""
        parts = deal(sequences, [1 / pace for pace in paces], least=1)
        return cls(tuple(len(part) for part in parts), tuple(paces))

    def seconds(self, paces: Sequence[float]) -> float:
        """Return how long the slowest rank takes at these speeds."""
        return max(count * pace for count, pace in zip(self.counts, paces, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A rank without which a step would be shorter."""

    rank: int
    seconds: float
    without: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The result of reviewing some steps."""

    split: Split
    """The split from now on."""
    changed: bool
    paces: tuple[float, ...]
    cost: Cost | None


@dataclass(slots=True)
class Balance:
    """The split of every step, from the measurements of the steps before."""

    sequences: int
    split: Split
    _next: tuple[int, Split] | None = None
    _ignored: int = SETTLING
    _span: int = FIRST_REVIEW
    _measured: list[tuple[Sequence[float], Sequence[float]]] = field(default_factory=list)

    def at(self, step: int) -> Split:
        """Return the split of a step, counted from 0; steps must be requested in order."""
        if self._next and step >= self._next[0]:
            self.split, self._next = self._next[1], None
        return self.split

    def add(self, done: int, paces: Sequence[float], waits: Sequence[float]) -> Review | None:
        """Add the measurements of step number `done`, counted from 1; return a review when there are enough.

        A rank with a GPU reads a step when the next one has already begun, so a change applies to the one after that.
        """
        if min(paces) <= 0:
            return None
        if self._ignored:
            self._ignored -= 1
            return None
        self._measured.append((paces, waits))
        if len(self._measured) < self._span:
            return None
        review = self._review()
        self._measured.clear()
        self._span = min(2 * self._span, LONGEST_REVIEW)
        if review.changed:
            self._next, self._ignored = (done + 1, review.split), SETTLING
        return review

    def _review(self) -> Review:
        paces, waits = (
            tuple(median(values) for values in zip(*steps, strict=True)) for steps in zip(*self._measured, strict=True)
        )
        better = Split.by_pace(self.sequences, paces)
        changed = better.seconds(paces) < (1 - GAIN) * self.split.seconds(paces)
        split = better if changed else self.split
        return Review(split=split, changed=changed, paces=paces, cost=costly(self.sequences, split, paces, min(waits)))


def costly(sequences: int, split: Split, paces: Sequence[float], network: float) -> Cost | None:
    """Return the rank without which a step would be shortest, if that is clearly shorter than now.

    `network` is the shortest wait of all ranks: that rank joins the sum last, so its wait is the sum alone. With one
    rank fewer a ring sends slightly less; a single rank sends nothing.
    """
    world = len(paces)
    if world < 2:
        return None
    now = split.seconds(paces) + network
    fewer = network * (world - 2) * world / (world - 1) ** 2
    without = []
    for rank in range(world):
        others = [*paces[:rank], *paces[rank + 1 :]]
        without.append((Split.by_pace(sequences, others).seconds(others) + fewer, -paces[rank], rank))
    shortest, _, rank = min(without)
    return Cost(rank=rank, seconds=now, without=shortest) if shortest < (1 - COST) * now else None


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
