"""Progress on standard error: one line that is redrawn on a terminal, and an occasional plain line elsewhere.

What a verb is doing is derived from its records: how much is done, what it waits for, how long it will take.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from railbed.model import events
from railbed.model.record import Event, Measurement, Record
from railbed.model.text import clock, printable

if TYPE_CHECKING:
    from rich.console import Console

STEPS_AVERAGED = 100
MOST_NAMED = 4
"""Maximum number of names in the line; the rest is counted."""
BAR_WIDTHS = range(5, 17)
"""A bar fills the rest of the line; without enough space there is none."""


@dataclass
class Activity:
    """The current activity; `clock` returns monotonic seconds."""

    clock: Callable[[], float] = time.monotonic
    what: str = ""
    detail: str = ""
    done: int | None = None
    total: int | None = None
    usual: float | None = None
    waiting: list[str] = field(default_factory=list)
    ending: bool = False
    """It was interrupted, and its processes are being ended."""
    _began: float = 0.0
    _steps: int = 0
    _steps_began: float | None = None
    _paces: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS_AVERAGED))
    _left: float | None = None
    _left_at: float = 0.0
    _expected: float | None = None

    def __post_init__(self) -> None:
        self._began = self.clock()

    def begin(
        self,
        what: str,
        *,
        detail: str = "",
        done: int | None = None,
        total: int | None = None,
        usual: float | None = None,
        waiting: Collection[str] = (),
    ) -> None:
        """Begin an activity; if it has the same name as the current one, that one and its time continue."""
        if what != self.what:
            self._began = self.clock()
        self.what, self.detail, self.done, self.total, self.usual = what, detail, done, total, usual
        self.waiting = list(waiting)

    def count(self, what: str, done: int, total: int) -> None:
        """Begin an activity, or note its progress; 0 of 0 if unknown."""
        self.begin(what, done=done if total else None, total=total or None)

    def expect(self, left: float | None, current: float | None = None) -> None:
        """Note how many seconds are left, of which at most `current` belong to the current activity."""
        self._left, self._left_at, self._expected = left, self.clock(), current

    def take(self, record: Record) -> None:
        """Update from a record."""
        match record:
            case Measurement(name="step_seconds", value=float(seconds), labels={"rank": 0, "step": int(step)}):
                self._take_step(step, seconds)
            case Event():
                if record.subject in self.waiting:
                    self.waiting.remove(record.subject)
                self._take_event(record)

    def _take_event(self, event: Event) -> None:
        match event:
            case events.Progress():
                self._take_progress(event)
            case events.ReadingStarted():
                self.begin("reading", done=0, total=event.devices, waiting=event.names)
            case events.DeviceRead() if self.done is not None:
                self.done += 1
            case events.TrialStarted():
                self.begin("measuring", detail=f"{event.message} {event.subject}", done=event.done, total=event.total)
                self.expect(event.left, event.expected)
            case events.GenerationStarted():
                self.begin("starting the ranks")
            case events.GenerationFailed():
                self.begin("restarting the ranks")
            case events.TrainingStarted():
                self._steps = event.steps

    def _take_progress(self, event: events.Progress) -> None:
        where = f"{event.subject}: " if event.subject else ""
        self.begin(
            f"{where}{event.message}",
            detail=event.detail or "",
            done=event.done,
            total=event.total,
            usual=event.usual,
            waiting=event.waiting or (),
        )
        self.expect(event.left)

    def _take_step(self, step: int, seconds: float) -> None:
        self._paces.append(seconds)
        self.begin("step", detail=self.detail if self.what == "step" else "", done=step, total=self._steps or None)
        if self._steps_began is None:
            self._steps_began = self._began
        self._began = self._steps_began  # an evaluation or a checkpoint between two steps is part of the training
        if self._steps:
            pace = sum(self._paces) / len(self._paces)
            self.expect(max(0, self._steps - step) * pace, pace)

    def estimate_left(self) -> float | None:
        """Return the estimated seconds left.

        An item that takes longer than expected does not reduce the time for the rest: the rest is expected to take
        longer as well, in proportion to the share of items that are done.
        """
        if self._left is None:
            return None
        passed = self.clock() - self._left_at
        if not self._expected or passed <= self._expected:
            return max(0.0, self._left - passed)
        done = self.done or 0
        return max(0.0, self._left - self._expected) * (done + passed / self._expected) / (done + 1)

    def measure_elapsed(self) -> float:
        """Return the seconds since this activity began."""
        return self.clock() - self._began

    def line(self, *, bar: str = "", width: int = 0) -> str:
        """Return the activity as one line; `bar` has the characters for what is done and for what is not."""
        if self.ending:
            return f"ending all processes, {clock(self.measure_elapsed())}: Ctrl-C again ends at once"
        words = self._join("")
        room = min(BAR_WIDTHS[-1], width - len(words) - 2)
        if not bar or self.done is None or not self.total or room not in BAR_WIDTHS:
            return words
        filled = min(room, room * self.done // self.total)
        return self._join(f"{bar[0] * filled}{bar[1] * (room - filled)} ")

    def _join(self, bar: str) -> str:
        count = f"{bar}{self.done}/{self.total}" if self.done is not None and self.total else ""
        return printable("  ".join(part for part in (self.what, count, self._times(), self._last()) if part))

    def _times(self) -> str:
        left = self.estimate_left()
        if left is not None:
            return f"{clock(self.measure_elapsed())}, about {clock(left)} left"
        return clock(self.measure_elapsed()) + (f" (usually {clock(self.usual)})" if self.usual else "")

    def _last(self) -> str:
        names = self.waiting
        if not names or (self.total and len(names) == self.total):
            return self.detail
        more = f" and {len(names) - MOST_NAMED + 1} more" if len(names) > MOST_NAMED else ""
        shown = names if not more else names[: MOST_NAMED - 1]
        return f"waiting for {', '.join(shown)}{more}"


DRAW_SECONDS = 0.5
"""Interval between two drawings; shorter activities are not drawn at all."""
PLAIN_SECONDS = ((60.0, 10.0), (600.0, 30.0), (float("inf"), 60.0))
"""Without a terminal: end of a phase, and seconds between two lines in it."""
BARS = "━─", "#-"
REST_OF_LINE, FAINT = "\x1b[K", ("\x1b[2m", "\x1b[0m")
WIDTH = 80


class ProgressLine:
    """Shows an activity until it is stopped. A thread draws it, even while the program is busy."""

    def __init__(self, *, shown: bool = True) -> None:
        self.activity = Activity()
        self._shown = shown
        self._on_terminal = shown and is_terminal()
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._console: Console | None = None
        self._drawn = False
        self._began = self._quiet_since = time.monotonic()

    def __enter__(self) -> Self:
        if self._shown and self._thread is None:
            self._began = self._quiet_since = time.monotonic()
            self._thread = threading.Thread(target=self._draw_on, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def take(self, record: Record) -> None:
        """Learn from a record."""
        with self._lock:
            self.activity.take(record)

    def print_line(self, text: str, style: str = "") -> None:
        """Print a line that stays."""
        with self._lock, suppress(OSError, ValueError):  # nothing reads the output
            self._wipe()
            if self._on_terminal:
                # Imported here because drawing is slow to load and often not needed.
                from rich.text import Text

                self._terminal().print(Text(printable(text), style=style))
            else:
                _write(f"{printable(text)}\n")
            self._quiet_since = time.monotonic()

    def clear(self) -> None:
        """Take the line away until the next activity begins: something else is shown, or asked."""
        with self._lock, suppress(OSError, ValueError):
            self._wipe()
            self.activity.begin("")

    def end(self) -> None:
        """Show that processes are being ended; a signal handler may call this."""
        if not self.activity.ending:
            self.activity.begin("ending")
            self.activity.ending = True

    def stop(self) -> None:
        """Remove the line."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock, suppress(OSError, ValueError):
            self._wipe()

    def _draw_on(self) -> None:
        while not self._stopped.wait(DRAW_SECONDS):
            with self._lock, suppress(OSError, ValueError):
                if self.activity.what and self._on_terminal:
                    self._draw()
                elif self.activity.what and self._is_due():
                    self.print_line(self.activity.line())

    def _draw(self) -> None:
        can_draw = "utf" in (getattr(sys.stderr, "encoding", None) or "").lower()
        width = _width()
        line = fit_line(self.activity.line(bar=BARS[not can_draw], width=width), width)
        faint, plain = ("", "") if os.environ.get("NO_COLOR") else FAINT
        _write(f"\r{faint}{line}{plain}{REST_OF_LINE}")
        self._drawn = True

    def _wipe(self) -> None:
        if self._drawn:
            _write(f"\r{REST_OF_LINE}")
        self._drawn = False

    def _is_due(self) -> bool:
        now = time.monotonic()
        pause = next(pause for until, pause in PLAIN_SECONDS if now - self._began < until + pause)
        return now - self._quiet_since >= pause

    def _terminal(self) -> Console:
        if self._console is None:
            from railbed.cli.console import SafeConsole

            self._console = SafeConsole(stderr=True, highlight=False)
        return self._console


def is_terminal() -> bool:
    """Whether a line on standard error can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


@contextmanager
def working(what: str, *, usual: float | None = None, shown: bool = True) -> Iterator[Activity]:
    """Show the progress of work outside a verb's records; the caller updates the activity."""
    line = ProgressLine(shown=shown)
    line.activity.begin(what, usual=usual)
    with line:
        yield line.activity


def fit_line(line: str, width: int) -> str:
    """Return a line shorter than `width` columns, so that the cursor stays on it."""
    columns = 0
    for at, char in enumerate(line):
        columns += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if columns >= width:
            return line[:at]
    return line


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def _write(text: str) -> None:
    """Write clean text, bypassing the stream that would remove our own control characters."""
    stream = sys.stderr
    while inner := getattr(stream, "rich_proxied_file", None):
        stream = inner
    stream.write(text)
    stream.flush()
