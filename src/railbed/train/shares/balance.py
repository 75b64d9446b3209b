"""Who takes how much of the global batch, by measured speed: decided by every rank for itself, from the same numbers.

With the sum that ends a step each rank tells how long a sequence took it, and how long it then waited for the sum. What
comes back is the same on all ranks, to the last bit, and so is everything that follows from it: all change to the same
split at the same step, and nobody has to be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from railbed.train.data.sampling import deal

SETTLING = 3
"""Steps after a change that are not looked at: caches are cold, a compiled model may be compiled anew."""
FIRST_LOOK, LONGEST_LOOK = 5, 80
"""Steps that the medians of a look are taken over. Every look is twice as long as the one before."""
GAIN = 0.1
"""A split gives way to one that makes the slowest rank's part of a step shorter by so much of it."""
COST = 0.05
"""A rank is said to cost more than it gives when a step without it would be shorter by so much of it."""


@dataclass(frozen=True, slots=True)
class Split:
    """How many sequences of every global batch each rank takes, and the speeds that this follows from."""

    counts: tuple[int, ...]
    paces: tuple[float, ...]
    """Seconds for a sequence, by rank."""

    @classmethod
    def by_pace(cls, sequences: int, paces: Sequence[float]) -> Split:
        """Return the split that is over first; everyone takes part, so that everyone's speed stays known."""
        parts = deal(sequences, [1 / pace for pace in paces], least=1)
        return cls(tuple(len(part) for part in parts), tuple(paces))

    def seconds(self, paces: Sequence[float]) -> float:
        """Return how long the slowest rank takes for its part at these speeds."""
        return max(count * pace for count, pace in zip(self.counts, paces, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A rank that makes a step longer than it would be without it."""

    rank: int
    seconds: float
    without: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found after some steps."""

    split: Split
    """The one from now on."""
    changed: bool
    paces: tuple[float, ...]
    cost: Cost | None


@dataclass(slots=True)
class Balance:
    """The split of every step, from what was heard of the steps before."""

    sequences: int
    split: Split
    _next: tuple[int, Split] | None = None
    _ignored: int = SETTLING
    _span: int = FIRST_LOOK
    _heard: list[tuple[Sequence[float], Sequence[float]]] = field(default_factory=list)

    def at(self, step: int) -> Split:
        """Return the split of a step, counted from 0; steps are asked for in their order."""
        if self._next and step >= self._next[0]:
            self.split, self._next = self._next[1], None
        return self.split

    def hear(self, done: int, paces: Sequence[float], waits: Sequence[float]) -> Look | None:
        """Hear what all ranks told with step number `done`, counted from 1; look when enough was heard.

        A rank with a GPU hears of a step when the next one has already begun, so a change is for the one after it.
        """
        if min(paces) <= 0:
            return None
        if self._ignored:
            self._ignored -= 1
            return None
        self._heard.append((paces, waits))
        if len(self._heard) < self._span:
            return None
        look = self._look()
        self._heard.clear()
        self._span = min(2 * self._span, LONGEST_LOOK)
        if look.changed:
            self._next, self._ignored = (done + 1, look.split), SETTLING
        return look

    def _look(self) -> Look:
        paces, waits = (
            tuple(median(told) for told in zip(*steps, strict=True)) for steps in zip(*self._heard, strict=True)
        )
        better = Split.by_pace(self.sequences, paces)
        changed = better.seconds(paces) < (1 - GAIN) * self.split.seconds(paces)
        split = better if changed else self.split
        return Look(split=split, changed=changed, paces=paces, cost=costly(self.sequences, split, paces, min(waits)))


def costly(sequences: int, split: Split, paces: Sequence[float], network: float) -> Cost | None:
    """Return the rank without which a step would be shortest, if it would be shorter than it is.

    `network` is the wait of the rank that waits least: it comes last to the sum, so this is the sum alone. With one
    rank less a ring sends a little less, with one rank alone nothing.
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
