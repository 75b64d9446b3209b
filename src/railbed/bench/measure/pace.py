"""How long trials really take beside what was planned, and so how much time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class _Spent:
    planned: float = 0.0
    real: float = 0.0

    @property
    def factor(self) -> float | None:
        return self.real / self.planned if self.planned else None


class Pace:
    """Knows what is still to be measured. Each test has a factor of its own: connecting costs a short one the most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._to_come: list[tuple[str, float]] = []
        self._done = 0
        self._current: tuple[str, float, float] | None = None
        self._all = _Spent()
        self._by_test: dict[str, _Spent] = {}

    def plan(self, trials: Iterable[tuple[str, float]]) -> None:
        """Add trials that are to come: the name of the test, and the seconds that are planned for it."""
        self._to_come += trials

    def begin(self, test: str, planned: float) -> dict[str, object]:
        """Begin a trial, which ends the one before; return what is to be said of it: counts and times."""
        self.end()
        if (test, planned) in self._to_come:
            self._to_come.remove((test, planned))
        self._current = (test, planned, self._clock())
        expected = self._expected(test, planned)
        return {
            "done": self._done,
            "total": self._done + 1 + len(self._to_come),
            "elapsed": round(self._clock() - self._began, 1),
            "expected": round(expected, 1),
            "left": round(expected + sum(self._expected(*one) for one in self._to_come), 1),
        }

    def end(self) -> None:
        """End the trial that is being measured, if there is one."""
        if self._current is None:
            return
        test, planned, since = self._current
        for spent in (self._all, self._by_test.setdefault(test, _Spent())):
            spent.planned += planned
            spent.real += self._clock() - since
        self._done += 1
        self._current = None

    @property
    def done(self) -> int:
        """How many trials have ended."""
        return self._done

    def _expected(self, test: str, planned: float) -> float:
        own = self._by_test.get(test)
        factor = (own.factor if own else None) or self._all.factor or 1.0
        return planned * factor
