"""How late this machine is: whether a time-out here says anything about the device that it is about."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque

TICK_SECONDS = 0.25
MOST_SECONDS = 1.0
"""Who sees things later than this may have missed an answer that came in time."""
KEPT = 1000


class Lateness:
    """Watches how much later than asked the event loop comes round."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._due = time.monotonic() + TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """End it."""
        if self._timer:
            self._timer.cancel()

    def excess(self, since: float) -> str:
        """Say how overloaded this machine was since a moment; empty where it was not."""
        late = max((late for when, late in self._seen if when >= since), default=0.0)
        late = max(late, time.monotonic() - self._due)
        return f"this machine is overloaded: its own timers ran {late:.1f} s late" if late > MOST_SECONDS else ""

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._due > 0:
            self._seen.append((now, now - self._due))
        self.start()
