"""Clocks: where the monotonic clock of a node stands in relation to ours, and whether a time of day was set.

Times of samples are read from monotonic clocks, which nobody sets. A heartbeat and its answer bound the difference: the
node read its clock between our sending and our receiving. The bounds of many heartbeats together are at least
as narrow as those of the quickest; they widen with time, since clocks drift.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

DRIFT = 200e-6
"""Seconds per second by which two clocks may drift apart: 100 parts per million each."""
JUMP_SECONDS = 0.05
"""A smaller change of the time of day is a time service that adjusts it."""

PAUSE_SECONDS, ATTEMPTS = 0.001, 10
"""If this process was paused between reading two clocks, it reads them again."""


class Alignment:
    """The difference between a node's monotonic clock and ours, within bounds."""

    def __init__(self) -> None:
        self._low = self._high = 0.0
        self._at: float | None = None

    @property
    def known(self) -> bool:
        """Whether a heartbeat was answered."""
        return self._at is not None

    @property
    def offset(self) -> float:
        """How far the node's clock is ahead of ours, in seconds."""
        return (self._low + self._high) / 2

    @property
    def error(self) -> float:
        """By how much the offset may be wrong."""
        return (self._high - self._low) / 2

    def add(self, *, sent: float, node: float, received: float) -> None:
        """Take a heartbeat into account: when it was sent and its answer received here, and the node's clock."""
        low, high = node - received, node - sent
        if self._at is not None:
            drift = DRIFT * max(0.0, received - self._at)
            below, above = self._low - drift, self._high + drift
            # If they exclude each other, a clock stood still, as that of a suspended machine does: the new ones hold.
            if low <= above and high >= below:
                low, high = max(low, below), min(high, above)
        self._low, self._high, self._at = low, high, received

    def to_ours(self, node: float) -> float:
        """Return our monotonic clock at a moment of the node's."""
        return node - self.offset


@dataclass(slots=True)
class WallClock:
    """The time of day of a machine, as its distance from the monotonic clock."""

    distance: float | None = None

    def set(self, distance: float) -> float:
        """Note the distance; return by how many seconds the clock was set since the last time, 0 if it was not."""
        before, self.distance = self.distance, distance
        change = distance - before if before is not None else 0.0
        return change if abs(change) > JUMP_SECONDS else 0.0


class ControlClock:
    """The clock of this machine, which all times are on."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._clock = WallClock()
        self._set_by = 0.0
        self.monotonic = monotonic
        self._follow()

    @property
    def distance(self) -> float:
        """Seconds between the time of day and the monotonic clock."""
        return self._clock.distance or 0.0

    def check(self) -> float:
        """Return by how many seconds the time of day was set since the last call, 0 if it was not."""
        self._follow()
        seconds, self._set_by = self._set_by, 0.0
        return seconds

    def time_of(self, monotonic: float) -> float:
        """Return the time of day at a moment of our monotonic clock."""
        self._follow()
        return monotonic + self.distance

    def _follow(self) -> None:
        for _ in range(ATTEMPTS):
            before, wall = self.monotonic(), self._wall()
            if self.monotonic() - before < PAUSE_SECONDS:
                self._set_by += self._clock.set(wall - before)
                return
