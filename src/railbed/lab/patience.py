"""Waits for slow work as long as it shows progress, up to a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path

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
