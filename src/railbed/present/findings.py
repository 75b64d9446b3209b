"""Findings in groups, the worst first, and their verdicts counted: the same on the terminal and in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from railbed.model.record import Finding, Verdict
from railbed.present.grouping import group_by
from railbed.present.wording import counted

IN_BRIEF = (Verdict.OK, Verdict.SKIPPED)
"""Verdicts that need no attention."""


def group_of(finding: Finding) -> str:
    """Return the node, rail or cluster that a finding belongs to."""
    return finding.subject.partition("/")[0]


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings by node (or rail, or cluster), the worst group and the worst finding first."""
    groups = group_by(findings, key=group_of)
    for group in groups:
        group.sort(key=lambda finding: (finding.verdict.rank, finding.check, counted(finding.subject)))
    return sorted(groups, key=_badness)


def verdict_counts(findings: Iterable[Finding]) -> list[tuple[Verdict, int, str]]:
    """Return each verdict that occurs, how often, and the noun for that many: `2 failed`, `1 warning`, `3 warnings`."""
    numbers = Counter(finding.verdict for finding in findings)
    return [(verdict, numbers[verdict], _noun(verdict, numbers[verdict])) for verdict in Verdict if numbers[verdict]]


def count_verdicts(findings: Iterable[Finding]) -> str:
    """Return `2 failed · 1 unknown · 31 ok`."""
    return " · ".join(f"{count} {noun}" for _, count, noun in verdict_counts(findings))


def _noun(verdict: Verdict, count: int) -> str:
    if verdict is Verdict.WARN:
        return "warning" if count == 1 else "warnings"
    return "failed" if verdict is Verdict.FAIL else verdict.value


def _badness(findings: Iterable[Finding]) -> list[int]:
    numbers = Counter(finding.verdict for finding in findings)
    return [-numbers[verdict] for verdict in Verdict if verdict is not Verdict.OK]
