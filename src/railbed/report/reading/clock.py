"""Times of records on a clock that only goes forward, also if the machine's was set back during the run."""

from __future__ import annotations

from math import isfinite

LEAST_SECONDS = 1.0
"""A smaller step back is the order in which records were stored."""


class ForwardClock:
    """Corrects times in the order in which they were recorded."""

    def __init__(self, start: float) -> None:
        self._last = start
        self._is_set = False
        self.set_back = 0.0
        """By how many seconds the clock was set back, at least: how long it was until the next record is not known."""

    def corrected(self, time: float) -> float:
        """Return a time, later by as much as the clock was set back before."""
        time += self.set_back
        if not isfinite(time):
            return self._last
        if self._is_set:
            if self._last - time >= LEAST_SECONDS:
                self.set_back += self._last - time
            time = max(self._last, time)
        self._last, self._is_set = time, True
        return time
