"""What `diagnose` and `capture` have in common: verdicts of which one may explain another."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import TypeVar

from railbed.check.form import DocumentedRule
from railbed.model.record import WRONG, Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class YieldingRule(DocumentedRule):
    """A rule whose verdict another one may explain, at the same time if it is about a time."""

    yields_to: tuple[str, ...] = ()
    """Rules whose verdict about the same place explains this one."""
    yields_anywhere: tuple[str, ...] = ()
    """Rules whose verdict explains this one, wherever it is: all nodes wait for one."""


R = TypeVar("R", bound=YieldingRule)


@dataclass(frozen=True, slots=True)
class _Concluded:
    """What a rule concluded."""

    rule: YieldingRule
    finding: Finding

    @property
    def since(self) -> float:
        return -inf if self.finding.since is None else self.finding.since

    @property
    def until(self) -> float:
        return inf if self.finding.until is None else self.finding.until

    @property
    def is_wrong(self) -> bool:
        return self.finding.verdict in WRONG


class _Causes:
    """Verdicts by rule and time: a run of days may have thousands of each rule."""

    def __init__(self, verdicts: Iterable[_Concluded]) -> None:
        of_rule: defaultdict[str, list[tuple[int, _Concluded]]] = defaultdict(list)
        for place, verdict in enumerate(verdicts):
            of_rule[verdict.rule.name].append((place, verdict))
        self._of_rule = {name: sorted(numbered, key=lambda entry: entry[1].since) for name, numbered in of_rule.items()}
        self._latest = {
            name: list(accumulate((verdict.until for _, verdict in numbered), max))
            for name, numbered in self._of_rule.items()
        }

    def between(self, names: Iterable[str], since: float, until: float) -> list[_Concluded]:
        """Return the verdicts of some rules about a time, in the order in which they were concluded."""
        return [verdict for _, verdict in sorted(self._between(names, since, until), key=lambda entry: entry[0])]

    def _between(self, names: Iterable[str], since: float, until: float) -> Iterator[tuple[int, _Concluded]]:
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

    def apply(self, rules: Iterable[R], judge: Callable[[R], Iterable[Finding]]) -> Iterator[Finding]:
        """Yield what the rules find; what another verdict explains is skipped, with that reason."""
        concluded = [_Concluded(rule, finding) for rule in rules for finding in judge(rule)]
        wrong = _Causes(verdict for verdict in concluded if verdict.is_wrong)
        for verdict in concluded:
            cause = self._first_cause(verdict, wrong, len(concluded)) if verdict.is_wrong else None
            if cause is None:
                yield verdict.finding
            else:
                by = f"explained by {cause.finding.check} on {cause.finding.subject}"
                observed = f"{verdict.finding.observed} ({by})"
                yield replace(verdict.finding, verdict=Verdict.SKIPPED, observed=observed, remedy="")

    def _first_cause(self, verdict: _Concluded, wrong: _Causes, most: int) -> _Concluded | None:
        """Return the verdict that explains another and is not explained itself."""
        cause = None
        for _ in range(most):  # rules that yield to each other would lead around in a circle
            further = self._cause(cause or verdict, wrong)
            if further is None:
                break
            cause = further
        return cause

    def _cause(self, effect: _Concluded, wrong: _Causes) -> _Concluded | None:
        """Return the verdict that explains another, if possible one about the same place."""
        anywhere, nearby = effect.rule.yields_anywhere, effect.rule.yields_to
        causes: list[_Concluded] = []
        for cause in wrong.between((*anywhere, *nearby), effect.since - self.slack, effect.until + self.slack):
            if self.same_place(cause.finding.subject, effect.finding.subject):
                return cause
            if cause.rule.name in anywhere:
                causes.append(cause)
        return causes[0] if causes else None


def conclude(rule: DocumentedRule, verdict: Verdict, observed: str) -> Finding:
    """Return a finding about the cluster, with nothing to do."""
    return Finding(check=rule.name, subject="cluster", verdict=verdict, expected="", observed=observed, why=rule.why)


def wrong_first(findings: Iterable[Finding], key: Callable[[Finding], tuple[float, float]]) -> list[Finding]:
    """Return what is wrong in the order of a key, then the rest as it was."""
    listed = list(findings)
    wrong = sorted((finding for finding in listed if finding.verdict in WRONG), key=key)
    return [*wrong, *(finding for finding in listed if finding.verdict not in WRONG)]
