"""How many devices are worked on at once: few at first, more while logins are quick, fewer when they get slow.

Each login costs processor time here and on the device, and devices may share more than one knows: a machine (a lab, a
hypervisor), or a home folder with locks in its start-up files. How long logins take tells.
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
"""A login that takes no longer is quick, however quick others were."""
SLOWER = 4.0
"""A login that takes so many times the quickest one met a crowd."""
WAITING_SECONDS = 3.0
"""A device that did not let us in by then costs nobody anything; others need not wait for it."""
WORKING_SECONDS = 10.0
"""Nor for one that has worked as long."""


class Gate:
    """Lets in as many at once as are served well."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = min(FIRST, most)
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._quickest = math.inf
        self._slowed = 0.0

    @property
    def limit(self) -> int:
        """How many are let in at once, as of now."""
        return self._limit

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """Wait for a place, and hold it until the work is done or takes too long to keep others waiting."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was our turn just now
                self.leave()
            raise
        place = Place(self)
        try:
            yield place
        finally:
            place.leave()

    def leave(self) -> None:
        """Give a place to the next."""
        self._inside -= 1
        self._admit()

    def grow(self, seconds: float, started: float) -> None:
        """Let in more after a login that was quick, beside the quickest; after any other, fewer."""
        self._quickest = min(self._quickest, seconds)
        if seconds > max(QUICK_SECONDS, SLOWER * self._quickest):
            self.shrink(started)
            return
        self._limit = min(self._most, self._limit + 1)
        self._admit()

    def shrink(self, started: float) -> None:
        """Let in half as many; but not again for a login that was begun before."""
        if started >= self._slowed:
            self._limit = max(LEAST, self._limit // 2)
            self._slowed = time.monotonic()

    def _admit(self) -> None:
        while self._inside < self._limit and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._inside += 1


class Place:
    """Room for one device."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._started = time.monotonic()
        self._held = True
        self._logged_in = False
        self._timer = asyncio.get_running_loop().call_later(WAITING_SECONDS, self._wait_no_more)

    def logged_in(self) -> None:
        """Note that the device let us in, and how long that took."""
        if not self._logged_in:
            self._logged_in = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(WORKING_SECONDS, self.leave)
            self._gate.grow(time.monotonic() - self._started, self._started)

    def leave(self) -> None:
        """Make room."""
        self._timer.cancel()
        if self._held:
            self._held = False
            self._gate.leave()

    def _wait_no_more(self) -> None:
        self._gate.shrink(self._started)
        self.leave()
