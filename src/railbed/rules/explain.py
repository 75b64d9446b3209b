"""Verdicts that explain others: if a node froze, the others lost packets to it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import Any

from railbed.model.record import WRONG, Finding, Verdict
from railbed.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Concluded:
    """What a rule concluded."""

    rule: Rule[Any]
    finding: Finding

    @property
    def since(self) -> float:
        """When it began; before everything if it is about no time."""
        return -inf if self.finding.since is None else self.finding.since

    @property
    def until(self) -> float:
        """When it ended; after everything if it lasts."""
        return inf if self.finding.until is None else self.finding.until

    @property
    def is_wrong(self) -> bool:
        """Whether it needs attention, and may explain others."""
        return self.finding.verdict in WRONG


class _Causes:
    """Verdicts by rule and time: a run of days may have thousands of each rule."""

    def __init__(self, verdicts: Iterable[Concluded]) -> None:
        of_rule: defaultdict[str, list[tuple[int, Concluded]]] = defaultdict(list)
        for place, verdict in enumerate(verdicts):
            of_rule[verdict.rule.name].append((place, verdict))
        self._of_rule = {name: sorted(numbered, key=lambda entry: entry[1].since) for name, numbered in of_rule.items()}
        self._latest = {
            name: list(accumulate((verdict.until for _, verdict in numbered), max))
            for name, numbered in self._of_rule.items()
        }

    def between(self, names: Iterable[str], since: float, until: float) -> list[Concluded]:
        """Return the verdicts of some rules about a time, in the order in which they were concluded."""
        return [verdict for _, verdict in sorted(self._between(names, since, until), key=lambda entry: entry[0])]

    def _between(self, names: Iterable[str], since: float, until: float) -> Iterator[tuple[int, Concluded]]:
        for name in self._of_rule.keys() & set(names):
            numbered, latest = self._of_rule[name], self._latest[name]
            last = bisect_right(numbered, until, key=lambda entry: entry[1].since)
            while last and latest[last - 1] >= since:
                last -= 1
                if numbered[last][1].until >= since:
                    yield numbered[last]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Decides which verdicts belong together."""

    same_place: Callable[[str, str], bool]
    slack: float = inf
    """How long the effects of a fault may precede or outlast what is known of the fault itself."""

    def apply(self, verdicts: Iterable[Concluded]) -> Iterator[Finding]:
        """Yield the findings; what another verdict explains is skipped, with that reason."""
        concluded = list(verdicts)
        wrong = _Causes(verdict for verdict in concluded if verdict.is_wrong)
        for verdict in concluded:
            cause = self._first_cause(verdict, wrong, len(concluded)) if verdict.is_wrong else None
            if cause is None:
                yield verdict.finding
            else:
                by = f"explained by {cause.finding.check} on {cause.finding.subject}"
                observed = f"{verdict.finding.observed} ({by})"
                yield replace(verdict.finding, verdict=Verdict.SKIPPED, observed=observed, remedy="")

    def _first_cause(self, verdict: Concluded, wrong: _Causes, most: int) -> Concluded | None:
        """Return the verdict that explains another and is not explained itself."""
        cause = None
        for _ in range(most):  # rules that yield to each other would lead around in a circle
            further = self._cause(cause or verdict, wrong)
            if further is None:
                break
            cause = further
        return cause

    def _cause(self, effect: Concluded, wrong: _Causes) -> Concluded | None:
        """Return the verdict that explains another, if possible one about the same place."""
        anywhere, nearby = effect.rule.yields_anywhere, effect.rule.yields_to
        causes: list[Concluded] = []
        for cause in wrong.between((*anywhere, *nearby), effect.since - self.slack, effect.until + self.slack):
            if self.same_place(cause.finding.subject, effect.finding.subject):
                return cause
            if cause.rule.name in anywhere:
                causes.append(cause)
        return causes[0] if causes else None


def wrong_first(findings: Iterable[Finding], key: Callable[[Finding], tuple[float, float]]) -> list[Finding]:
    """Return what is wrong in the order of a key, then the rest as it was."""
    listed = list(findings)
    wrong = sorted((finding for finding in listed if finding.verdict in WRONG), key=key)
    return [*wrong, *(finding for finding in listed if finding.verdict not in WRONG)]
