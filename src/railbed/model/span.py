"""A number known between two bounds, such as the increase of a counter that wraps, saturates or counts packets."""

from __future__ import annotations

from dataclasses import dataclass

WRAP = 2**32
"""Many counters of RDMA cards have 32 bits: those of the driver wrap, those of the port saturate."""
STUCK = WRAP - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The lower and the upper bound; None if there is no upper bound."""

    least: int
    most: int | None

    @classmethod
    def exactly(cls, value: int) -> Range:
        """Return the span of an exact number."""
        return cls(value, value)

    def __add__(self, other: Range) -> Range:
        most = None if self.most is None or other.most is None else self.most + other.most
        return Range(self.least + other.least, most)

    def times(self, least: int, most: int) -> Range:
        """Return the total size of so many items, each of a size between two bounds."""
        return Range(self.least * least, None if self.most is None else self.most * most)

    def at_most(self, limit: int | None) -> Range:
        """Return the span with its upper bound lowered to a limit."""
        if limit is None or (self.most is not None and self.most <= limit):
            return self
        return Range(min(self.least, limit), limit)


def grown(before: int, after: int) -> Range:
    """Return by how much a counter increased between two readings.

    A counter that fell has wrapped at 32 bits if that means an increase of less than half the range; otherwise it was
    reset, and only its count since then is known. More than one wrap between two readings goes unnoticed.
    """
    if after >= before:
        return Range(after - before, None if after == STUCK else after - before)
    wrapped = after + WRAP - before
    if before < WRAP and wrapped < WRAP // 2:
        return Range.exactly(wrapped)
    return Range(after, None)
