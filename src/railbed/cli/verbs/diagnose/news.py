"""What is new about a run in progress: verdicts that begin, end, come back, or are withdrawn.

A verdict about the last seconds is not final: samples are still arriving, and a rule that explains it may need more
of them. So it is new when it is there twice in a row, and over when it has been over for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from railbed.model.record import WRONG, Finding, Verdict
from railbed.rules.judgement import Span

OVER_SECONDS = 8.0
"""How long ago it ended. Switches are read every five seconds."""
NEAR_SECONDS = 2.0
"""How far the times of a verdict may move when more samples arrive."""
MISSES = 2
"""How often in a row a verdict is missing until it is withdrawn."""


class News(NamedTuple):
    """Something new about a verdict."""

    kind: Literal["begins", "ends", "withdrawn"]
    finding: Finding
    """With the same `since` whenever it is about the same verdict."""


@dataclass(slots=True)
class _Known:
    """A verdict that was there the last time."""

    finding: Finding
    is_reported: bool = False
    is_over: bool = False
    misses: int = 0


class VerdictNews:
    """Compares the findings about a run with those before."""

    def __init__(self) -> None:
        self._known: list[_Known] = []

    def compare(self, findings: Sequence[Finding], now: float, *, final: bool = False) -> list[News]:
        """Return what is new; `final` findings are those about a run that has ended."""
        news: list[News] = []
        present: list[_Known] = []
        for finding in findings:
            if finding.verdict not in WRONG:
                continue
            known = self._find(finding, except_for=present)
            if known is None:
                known = _Known(finding)
                self._known.append(known)
                news += _begun(known, finding, now) if final or _is_over(finding, now) else ()
            else:
                news += _changes(known, finding, now, final=final)
            known.misses = 0
            present.append(known)
        for known in [known for known in self._known if known not in present]:
            known.misses += 1
            if final or not known.is_reported or known.misses >= MISSES:
                self._known.remove(known)
                news += [News("withdrawn", _withdrawn(known.finding, findings))] if known.is_reported else []
        return news

    def _find(self, finding: Finding, *, except_for: Sequence[_Known]) -> _Known | None:
        """Return the same verdict as it was before: the one that began at about the same time."""
        same = [
            known
            for known in self._known
            if all(known is not other for other in except_for) and _is_same(known.finding, finding)
        ]
        return min(same, key=lambda known: abs((known.finding.since or 0.0) - (finding.since or 0.0)), default=None)


def _changes(known: _Known, finding: Finding, now: float, *, final: bool) -> Iterable[News]:
    """Note a verdict that was there before, and yield what is new about it."""
    before, known.finding = known.finding, replace(finding, since=known.finding.since)
    is_worse = finding.verdict.rank < before.verdict.rank
    is_back = known.is_over and _end(finding) > _end(before) + OVER_SECONDS
    if not known.is_reported or is_worse or is_back:
        yield from _begun(known, known.finding, now)
    elif not known.is_over and (_is_over(finding, now) or (final and finding.until is not None)):
        known.is_over = True
        yield News("ends", known.finding)


def _begun(known: _Known, finding: Finding, now: float) -> Iterable[News]:
    known.is_reported, known.is_over = True, _is_over(finding, now)
    yield News("begins", finding)


def _is_over(finding: Finding, now: float) -> bool:
    return _end(finding) < now - OVER_SECONDS


def _end(finding: Finding) -> float:
    return float("inf") if finding.until is None else finding.until


def _is_same(first: Finding, second: Finding) -> bool:
    if (first.check, first.subject) != (second.check, second.subject):
        return False
    return _span(first).widened(NEAR_SECONDS).overlaps(_span(second))


def _span(finding: Finding) -> Span:
    return Span(float("-inf") if finding.since is None else finding.since, _end(finding))


def _withdrawn(finding: Finding, findings: Iterable[Finding]) -> Finding:
    """Return the finding that replaces a verdict: what explains it, or that it is not found any more."""
    for other in findings:
        if other.verdict is Verdict.SKIPPED and other.since is not None and _is_same(finding, other):
            return replace(other, since=finding.since)
    observed = f"not found any more with later samples: {finding.observed}"
    return replace(finding, verdict=Verdict.OK, observed=observed, remedy="", evidence="")
