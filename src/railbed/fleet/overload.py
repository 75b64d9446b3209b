"""Whether this machine is overloaded, so that a time-out proves nothing about the device that did not answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque

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
