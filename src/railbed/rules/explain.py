"""Verdicts that explain others: if a node froze, the others lost packets to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from railbed.model.record import WRONG, Finding, Verdict
from railbed.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Concluded:
    """What a rule concluded."""

    rule: Rule[Any]
    finding: Finding


@dataclass(frozen=True, slots=True)
class Explanation:
    """Decides which verdicts belong together."""

    same_place: Callable[[str, str], bool]
    same_time: Callable[[Finding, Finding], bool]

    def apply(self, verdicts: Iterable[Concluded]) -> Iterator[Finding]:
        """Yield the findings; what another verdict explains is skipped, with that reason."""
        concluded = list(verdicts)
        wrong = [verdict for verdict in concluded if verdict.finding.verdict in WRONG]
        for verdict in concluded:
            cause = self._first_cause(verdict, wrong) if verdict.finding.verdict in WRONG else None
            if cause is None:
                yield verdict.finding
            else:
                by = f"explained by {cause.finding.check} on {cause.finding.subject}"
                observed = f"{verdict.finding.observed} ({by})"
                yield replace(verdict.finding, verdict=Verdict.SKIPPED, observed=observed, remedy="")

    def _first_cause(self, verdict: Concluded, wrong: Sequence[Concluded]) -> Concluded | None:
        """Return the verdict that explains another and is not explained itself."""
        cause = None
        for _ in wrong:  # rules that yield to each other would lead around in a circle
            further = self._cause(cause or verdict, wrong)
            if further is None:
                break
            cause = further
        return cause

    def _cause(self, effect: Concluded, wrong: Iterable[Concluded]) -> Concluded | None:
        """Return the verdict that explains another, if possible one about the same place."""
        causes = [cause for cause in wrong if self._explains(cause, effect)]
        near = (cause for cause in causes if self.same_place(cause.finding.subject, effect.finding.subject))
        return next(near, causes[0] if causes else None)

    def _explains(self, cause: Concluded, effect: Concluded) -> bool:
        if not self.same_time(cause.finding, effect.finding):
            return False
        if cause.rule.name in effect.rule.yields_anywhere:
            return True
        near = self.same_place(cause.finding.subject, effect.finding.subject)
        return near and cause.rule.name in effect.rule.yields_to


def wrong_first(findings: Iterable[Finding], key: Callable[[Finding], tuple[float, float]]) -> list[Finding]:
    """Return what is wrong in the order of a key, then the rest as it was."""
    listed = list(findings)
    wrong = sorted((finding for finding in listed if finding.verdict in WRONG), key=key)
    return [*wrong, *(finding for finding in listed if finding.verdict not in WRONG)]
