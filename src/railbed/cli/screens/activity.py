"""What a verb is doing, derived from its records: how much is done, what it waits for, how long it will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from railbed.model import events
from railbed.model.record import Event, Measurement, Record
from railbed.model.text.amount import clock
from railbed.model.text.printable import printable

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

    def left(self) -> float | None:
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

    def elapsed(self) -> float:
        """Return the seconds since this activity began."""
        return self.clock() - self._began

    def line(self, *, bar: str = "", width: int = 0) -> str:
        """Return the activity as one line; `bar` has the characters for what is done and for what is not."""
        if self.ending:
            return f"ending all processes, {clock(self.elapsed())}: Ctrl-C again ends at once"
        words = self._joined("")
        room = min(BAR_WIDTHS[-1], width - len(words) - 2)
        if not bar or self.done is None or not self.total or room not in BAR_WIDTHS:
            return words
        filled = min(room, room * self.done // self.total)
        return self._joined(f"{bar[0] * filled}{bar[1] * (room - filled)} ")

    def _joined(self, bar: str) -> str:
        count = f"{bar}{self.done}/{self.total}" if self.done is not None and self.total else ""
        return printable("  ".join(part for part in (self.what, count, self._times(), self._last()) if part))

    def _times(self) -> str:
        left = self.left()
        if left is not None:
            return f"{clock(self.elapsed())}, about {clock(left)} left"
        return clock(self.elapsed()) + (f" (usually {clock(self.usual)})" if self.usual else "")

    def _last(self) -> str:
        names = self.waiting
        if not names or (self.total and len(names) == self.total):
            return self.detail
        more = f" and {len(names) - MOST_NAMED + 1} more" if len(names) > MOST_NAMED else ""
        shown = names if not more else names[: MOST_NAMED - 1]
        return f"waiting for {', '.join(shown)}{more}"
