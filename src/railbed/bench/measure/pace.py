"""How long trials take compared with the schedule, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from railbed.model.events import TrialStarted


@dataclass(slots=True)
class _Spent:
    scheduled: float = 0.0
    real: float = 0.0

    @property
    def factor(self) -> float | None:
        return self.real / self.scheduled if self.scheduled else None


class Pace:
    """The trials still to come, and a correction factor per test: connecting dominates short tests, not long ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._to_come: list[tuple[str, float]] = []
        self._done = 0
        self._current: tuple[str, float, float] | None = None
        self._all = _Spent()
        self._by_test: dict[str, _Spent] = {}

    def expect(self, trials: Iterable[tuple[str, float]]) -> None:
        """Add trials to come: the name of the test, and the seconds scheduled for it."""
        self._to_come += trials

    def begin(self, trial: TrialStarted, scheduled: float) -> TrialStarted:
        """Begin a trial, which ends the previous one; return its event with the counts and times to show."""
        self.end()
        test = trial.message
        if (test, scheduled) in self._to_come:
            self._to_come.remove((test, scheduled))
        self._current = (test, scheduled, self._clock())
        expected = self._expected(test, scheduled)
        return replace(
            trial,
            done=self._done,
            total=self._done + 1 + len(self._to_come),
            elapsed=round(self._clock() - self._began, 1),
            expected=round(expected, 1),
            left=round(expected + sum(self._expected(*later) for later in self._to_come), 1),
        )

    def end(self) -> None:
        """End the current trial, if there is one."""
        if self._current is None:
            return
        test, scheduled, since = self._current
        for spent in (self._all, self._by_test.setdefault(test, _Spent())):
            spent.scheduled += scheduled
            spent.real += self._clock() - since
        self._done += 1
        self._current = None

    @property
    def done(self) -> int:
        """How many trials have ended."""
        return self._done

    def _expected(self, test: str, scheduled: float) -> float:
        own = self._by_test.get(test)
        factor = (own.factor if own else None) or self._all.factor or 1.0
        return scheduled * factor
