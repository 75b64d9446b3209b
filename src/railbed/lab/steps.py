"""Long steps, announced with their usual duration on this machine, which is stored in the cache.

They may take as long as they show progress, up to a limit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from pathlib import Path

from railbed.model.events import LabImage
from railbed.model.events.general import progress
from railbed.model.record import Event
from railbed.store import write_atomically
from railbed.store.cache import ForeignCache, cache_folder, make_folder, read_cached
from railbed.store.run import PRIVATE

DURATIONS = "durations.json"


class LongSteps:
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


BUSY_SHARE = 0.2
"""A process that runs, or waits for a processor, for this share of the time is working; an idle guest takes a tenth."""
LOOK_SECONDS = 5.0
Signs = Callable[[], Hashable]
"""Returns a value that differs each time there was progress."""


class Patience:
    """Runs out `quiet` seconds after the last sign of progress, or `most` seconds after the start."""

    def __init__(self, signs: Signs, *, quiet: float, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._signs, self._quiet, self._most, self._clock = signs, quiet, most, clock
        self._began = self._moved = clock()
        self._last = signs()

    def at_end(self) -> str:
        """Return why to stop waiting; empty while waiting makes sense."""
        now, signs = self._clock(), self._signs()
        if signs != self._last:
            self._last, self._moved = signs, now
        if now - self._began > self._most:
            return f"it was not done within {self._most:g} s"
        if now - self._moved > self._quiet:
            return f"it showed no sign of progress for {self._quiet:g} s"
        return ""


def no_signs() -> Hashable:
    """Return a constant, for work that cannot show progress."""
    return None


class ProcessSigns:
    """A working process: its output grows, it reads or writes, or it needs a processor most of the time.

    Waiting for a processor counts too: on a busy machine, a working process spends most of its time on that.
    """

    def __init__(self, pid: int, output: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._pid, self._output, self._clock = pid, output, clock
        self._looked, self._wanted = clock(), _wanted_seconds(pid)
        self._worked = 0

    def __call__(self) -> Hashable:
        """Return how much it has printed, read and written, and how often it was busy."""
        now = self._clock()
        if now - self._looked >= LOOK_SECONDS:
            wanted = _wanted_seconds(self._pid)
            self._worked += (wanted - self._wanted) / (now - self._looked) >= BUSY_SHARE
            self._looked, self._wanted = now, wanted
        return size_of(self._output), _moved_bytes(self._pid), self._worked


def _wanted_seconds(pid: int) -> float:
    """Return how long the threads of a process ran or waited for a processor."""
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError, ValueError, IndexError):
                running, waiting, *_ = (task / "schedstat").read_text(encoding="ascii").split()
                total += int(running) + int(waiting)
    return total / 1e9


def _moved_bytes(pid: int) -> int:
    with suppress(OSError, ValueError):
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
        fields = dict(line.split(": ") for line in text.splitlines())
        return int(fields.get("read_bytes", 0)) + int(fields.get("write_bytes", 0))
    return 0


def size_of(path: Path) -> int:
    """Return the bytes of a file that may not be there yet."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
