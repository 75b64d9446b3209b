"""When trials run: who sends to whom at the same time, how long that takes, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Literal

from railbed.model.events import TrialStarted

Pattern = Literal["pair", "matrix", "rounds", "ring", "incast", "all"]
Direction = Literal["one", "each", "both"]
Pair = tuple[str, str]
"""The sending node, and the receiving node."""
PATTERNS: dict[Pattern, str] = {
    "pair": "the first two nodes",
    "matrix": "every pair, one at a time",
    "rounds": "every pair; pairs without a common node run at the same time",
    "ring": "each node to the next, all at the same time",
    "incast": "all other nodes to one node at the same time, for each node",
    "all": "each node to every other, all at the same time",
}


def rounds_of(pattern: Pattern, nodes: Sequence[str], direction: Direction) -> list[list[Pair]]:
    """Return the trials of a pattern, each a list of pairs that run together; fewer than two nodes have none."""
    forward = _forward(pattern, nodes) if len(nodes) > 1 else []
    if direction != "each":
        return forward
    backward = [[(target, source) for source, target in pairs] for pairs in forward]
    # A ring of two nodes, and all-to-all of any number, already contain their own reverse.
    return [trial for pairs in zip(forward, backward, strict=True) for trial in _distinct(*pairs)]


def _forward(pattern: Pattern, nodes: Sequence[str]) -> list[list[Pair]]:
    match pattern:
        case "pair":
            return [[(nodes[0], nodes[1])]]
        case "matrix":
            return [[pair] for pair in combinations(nodes, 2)]
        case "rounds":
            return tournament(nodes)
        case "ring":
            return [[(node, nodes[(index + 1) % len(nodes)]) for index, node in enumerate(nodes)]]
        case "incast":
            return [[(source, target) for source in nodes if source != target] for target in nodes]
        case "all":
            return [list(permutations(nodes, 2))]


def _distinct(forward: list[Pair], backward: list[Pair]) -> list[list[Pair]]:
    return [forward] if set(forward) == set(backward) else [forward, backward]


def tournament(nodes: Sequence[str]) -> list[list[Pair]]:
    """Return rounds in which every pair occurs once and no node occurs twice per round (the circle method)."""
    seats: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    order = {node: index for index, node in enumerate(nodes)}
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        opposite = zip(seats[:half], reversed(seats[half:]), strict=True)
        pairs = [sorted((left, right), key=order.__getitem__) for left, right in opposite if left and right]
        rounds.append([(source, target) for source, target in pairs])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


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
        expected = self._expect(test, scheduled)
        return replace(
            trial,
            done=self._done,
            total=self._done + 1 + len(self._to_come),
            elapsed=round(self._clock() - self._began, 1),
            expected=round(expected, 1),
            left=round(expected + sum(self._expect(*later) for later in self._to_come), 1),
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

    def _expect(self, test: str, scheduled: float) -> float:
        own = self._by_test.get(test)
        factor = (own.factor if own else None) or self._all.factor or 1.0
        return scheduled * factor
