"""Long steps, announced with their usual duration on this machine, which is stored in the cache."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from contextlib import suppress

from railbed.model.events import LabImage
from railbed.model.progress import progress
from railbed.model.record import Event
from railbed.store import write_atomically
from railbed.store.cache import ForeignCache, cache_folder, make_folder, read_cached
from railbed.store.run import PRIVATE

DURATIONS = "durations.json"


class Steps:
    """Consecutive steps with the same subject."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._name = self._message = ""
        self._usual = 0.0
        self._since = time.monotonic()

    def begin(self, name: str, message: str, *, usual: float, waiting: Collection[str] = ()) -> Event:
        """Begin a step; `usual` is its duration if this machine has not done it yet."""
        self._name, self._message, self._since = name, message, time.monotonic()
        self._usual = usual_seconds(name, usual)
        return progress(message, subject=self._subject, usual=self._usual, waiting=waiting)

    def go_on(self, detail: str) -> Event:
        """Report what the step is doing."""
        return progress(self._message, subject=self._subject, detail=detail, usual=self._usual)

    def end(self, message: str) -> Event:
        """End the step, and store how long it took."""
        seconds = self.remember()
        return LabImage(subject=self._subject, message=f"{message}, {seconds:.1f} s", seconds=seconds)

    def remember(self) -> float:
        """Store how long the step took, and return it."""
        seconds = time.monotonic() - self._since
        _remember(self._name, seconds)
        return seconds


def usual_seconds(name: str, otherwise: float) -> float:
    """Return how long a step took when it was last done here."""
    seconds = _durations().get(name)
    return round(seconds if seconds is not None else otherwise, 1)


def _remember(name: str, seconds: float) -> None:
    """Store how long a step took; a failure to write it does not matter."""
    with suppress(OSError):
        text = json.dumps({**_durations(), name: round(seconds, 1)}, indent=1)
        write_atomically(make_folder() / DURATIONS, text.encode(), mode=PRIVATE)


def _durations() -> dict[str, float]:
    try:
        known = json.loads(read_cached(cache_folder() / DURATIONS))
        return {str(name): float(seconds) for name, seconds in known.items()}
    except (OSError, ValueError, TypeError, AttributeError, ForeignCache):
        return {}
