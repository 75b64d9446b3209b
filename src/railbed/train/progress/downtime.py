"""The cost of restarts: the time in which training made no new progress.

It begins with the last new step before the failure, and ends when that step is reached again. So it includes the time
until the failure was noticed, the time until steps were taken again, and the repeated steps. If another restart follows
before that, both are counted together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from railbed.model import events
from railbed.model.record import Measurement, Record
from railbed.model.text.amount import plural


@dataclass(slots=True)
class _Restart:
    """A restart from which training has not caught up yet."""

    noticed: float
    restarts: int = 1
    began: float | None = None
    """When the first step after it began."""
    first: int = 0
    """That step."""


class Downtime:
    """Watches the records of a run in real time, and reports the cost of each restart once training has caught up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._step = 0
        self._reached = 0.0
        """When the furthest step was reached; before the first one, when the first ranks were started."""
        self._started = 0.0
        self._open: _Restart | None = None

    def add_record(self, record: Record) -> list[Record]:
        """Add a record; return the records that follow from it."""
        now = self._clock()
        match record:
            case events.GenerationStarted():
                self._started = now
                self._reached = self._reached or now
            case events.GenerationFailed():
                restarts = self._open.restarts + 1 if self._open else 1
                self._open = _Restart(noticed=self._open.noticed if self._open else now, restarts=restarts)
            case Measurement(name="step_seconds", value=seconds, labels={"rank": 0, "step": int(step)}):
                return self._made(step, now, seconds)
            case _:
                pass
        return []

    def _made(self, step: int, now: float, seconds: float) -> list[Record]:
        """Note a step of rank 0."""
        records: list[Record] = []
        if self._open:
            if self._open.began is None:
                self._open.began, self._open.first = max(now - seconds, self._open.noticed), step
            if step >= self._step:
                records.append(self._account(self._open, now if step == self._step else now - seconds))
                self._open = None
        if step > self._step:
            self._step, self._reached = step, now
        return records

    def _account(self, account: _Restart, caught_up: float) -> events.CaughtUp:
        began = account.began or caught_up
        if self._step:
            unnoticed, again = account.noticed - self._reached, max(0.0, caught_up - began)
            stopped = began - account.noticed
        else:  # no step had been reached: only the time of another start is lost
            unnoticed, again, stopped = account.noticed - self._reached, 0.0, self._started - account.noticed
        steps = max(0, self._step - account.first + 1)
        lost = unnoticed + stopped + again
        repeated = f", {again:.1f} s for {plural(steps, 'step')} again" if steps else ""
        several = f"{account.restarts} restarts" if account.restarts > 1 else "the restart"
        return events.CaughtUp(
            message=f"{several} cost {lost:.1f} s: {unnoticed:.1f} s until it was noticed, {stopped:.1f} s until "
            f"steps were taken again{repeated}",
            lost_seconds=lost,
            unnoticed_seconds=unnoticed,
            stopped_seconds=stopped,
            again_seconds=again,
            steps_again=steps,
            restarts=account.restarts,
            step=self._step,
        )
