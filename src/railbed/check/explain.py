"""What `diagnose` and `capture` have in common: verdicts of which one may explain another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """Decides which verdicts belong together."""

    same_place: Callable[[str, str], bool]
    same_time: Callable[[Finding, Finding], bool] = lambda _cause, _effect: True

    def apply(self, rules: Iterable[R], judge: Callable[[R], Iterable[Finding]]) -> Iterator[Finding]:
        """Yield what the rules find; what another verdict explains is skipped, with that reason."""
        concluded = [_Concluded(rule, finding) for rule in rules for finding in judge(rule)]
        wrong = [verdict for verdict in concluded if verdict.finding.verdict in WRONG]
        for verdict in concluded:
            cause = self._first_cause(verdict, wrong) if verdict.finding.verdict in WRONG else None
            if cause is None:
                yield verdict.finding
            else:
                by = f"explained by {cause.finding.check} on {cause.finding.subject}"
                observed = f"{verdict.finding.observed} ({by})"
                yield replace(verdict.finding, verdict=Verdict.SKIPPED, observed=observed, remedy="")

    def _first_cause(self, verdict: _Concluded, wrong: Sequence[_Concluded]) -> _Concluded | None:
        """Return the verdict that explains another and is not explained itself."""
        cause = None
        for _ in wrong:  # rules that yield to each other would lead around in a circle
            further = self._cause(cause or verdict, wrong)
            if further is None:
                break
            cause = further
        return cause

    def _cause(self, effect: _Concluded, wrong: Iterable[_Concluded]) -> _Concluded | None:
        """Return the verdict that explains another, if possible one about the same place."""
        causes = [cause for cause in wrong if self._explains(cause, effect)]
        near = (cause for cause in causes if self.same_place(cause.finding.subject, effect.finding.subject))
        return next(near, causes[0] if causes else None)

    def _explains(self, cause: _Concluded, effect: _Concluded) -> bool:
        if not self.same_time(cause.finding, effect.finding):
            return False
        if cause.rule.name in effect.rule.yields_anywhere:
            return True
        near = self.same_place(cause.finding.subject, effect.finding.subject)
        return near and cause.rule.name in effect.rule.yields_to


def conclude(rule: DocumentedRule, verdict: Verdict, observed: str) -> Finding:
    """Return a finding about the cluster, with nothing to do."""
    return Finding(check=rule.name, subject="cluster", verdict=verdict, expected="", observed=observed, why=rule.why)


def wrong_first(findings: Iterable[Finding], key: Callable[[Finding], tuple[float, float]]) -> list[Finding]:
    """Return what is wrong in the order of a key, then the rest as it was."""
    listed = list(findings)
    wrong = sorted((finding for finding in listed if finding.verdict in WRONG), key=key)
    return [*wrong, *(finding for finding in listed if finding.verdict not in WRONG)]
