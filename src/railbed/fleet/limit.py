"""How many devices are worked on at once: few at first, more while logins are quick, fewer when they get slow.

Each login costs processor time here and on the device, and devices may share resources that we cannot see: a machine (a
lab, a hypervisor), or a home folder with locks in its start-up files. The duration of logins shows it.

If this machine is overloaded, a time-out proves nothing about the device that did not answer.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FIRST = max(4, 2 * (os.cpu_count() or 1))


LEAST = 2


QUICK_SECONDS = 0.25
"""A login up to this duration counts as quick, even if others were quicker."""


SLOWER = 4.0
"""A login that takes this many times as long as the quickest indicates contention."""


WAITING_SECONDS = 3.0
"""A device whose login takes longer uses no resources, so others need not wait for it."""


WORKING_SECONDS = 10.0
"""Others do not wait for a device that has been working this long, either."""


class AdaptiveLimit:
    """Limits how many devices are worked on at once, by how long their logins take."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = min(FIRST, most)
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._quickest = math.inf
        self._slowed = 0.0

    @property
    def limit(self) -> int:
        """The current limit."""
        return self._limit

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a slot, and hold it until the work is done or takes too long to keep others waiting."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was handed to us just before the cancellation
                self.release()
            raise
        slot = Slot(self)
        try:
            yield slot
        finally:
            slot.release()

    def release(self) -> None:
        """Hand a slot to the next waiting device."""
        self._inside -= 1
        self._admit()

    def adjust(self, seconds: float, started: float) -> None:
        """Raise the limit after a login that was quick compared with the quickest; lower it after any other."""
        self._quickest = min(self._quickest, seconds)
        if seconds > max(QUICK_SECONDS, SLOWER * self._quickest):
            self.shrink(started)
            return
        self._limit = min(self._most, self._limit + 1)
        self._admit()

    def shrink(self, started: float) -> None:
        """Halve the limit; but not again for a login that began before it was halved."""
        if started >= self._slowed:
            self._limit = max(LEAST, self._limit // 2)
            self._slowed = time.monotonic()

    def _admit(self) -> None:
        while self._inside < self._limit and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._inside += 1


class Slot:
    """Room for one device."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self._started = time.monotonic()
        self._held = True
        self._logged_in = False
        self._timer = asyncio.get_running_loop().call_later(WAITING_SECONDS, self._stop_waiting)

    def note_login(self) -> None:
        """Note that the login succeeded, and how long it took."""
        if not self._logged_in:
            self._logged_in = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(WORKING_SECONDS, self.release)
            self._limit.adjust(time.monotonic() - self._started, self._started)

    def release(self) -> None:
        """Release the slot."""
        self._timer.cancel()
        if self._held:
            self._held = False
            self._limit.release()

    def _stop_waiting(self) -> None:
        self._limit.shrink(self._started)
        self.release()


TICK_SECONDS = 0.25


MOST_SECONDS = 1.0
"""With timers later than this, an answer that came in time may have been missed."""


SAMPLES = 1000


class OverloadMonitor:
    """Measures how late the event loop runs its timers."""

    def __init__(self) -> None:
        self._delays: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start measuring."""
        self._due = time.monotonic() + TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer:
            self._timer.cancel()

    def excuse(self, since: float) -> str:
        """Describe how overloaded this machine was since a moment; empty if it was not."""
        late = max((late for when, late in self._delays if when >= since), default=0.0)
        late = max(late, time.monotonic() - self._due)
        return f"this machine is overloaded: its own timers ran {late:.1f} s late" if late > MOST_SECONDS else ""

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._due > 0:
            self._delays.append((now, now - self._due))
        self.start()
