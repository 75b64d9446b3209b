"""Applies rules to evidence: pure, from facts, time series or packets to findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from railbed.model.probe import Probe
from railbed.model.record import WRONG, Finding, Verdict
from railbed.model.text import plural
from railbed.present.groups import group_by
from railbed.rules.book import RuleBook
from railbed.rules.explain import Concluded, Explanation, wrong_first
from railbed.rules.judgement import Judgement, skip
from railbed.rules.rule import Absent, NotJudged, Rule, Subject, Unread

E = TypeVar("E")


def judge(book: RuleBook[E], evidence: E, rules: Iterable[Rule[Any]] | None = None) -> Iterator[Finding]:
    """Yield the findings of some rules, or of all: by rule and subject, or if the book sums up, what is wrong first."""
    chosen = book.rules.values() if rules is None else rules
    judging = _Judging(book, evidence)
    if not book.sums_up:
        for rule in chosen:
            yield from judging.each(rule)
        return
    explanation = Explanation(partial(book.same_place, evidence), book.slack)
    concluded = (Concluded(rule, finding) for rule in chosen for finding in judging.sum_up(rule))
    explained = explanation.apply(concluded)
    yield from wrong_first(_condense(explained, book.most) if book.most else explained, book.order)


def probes_needed(book: RuleBook[E], evidence: E, rules: Iterable[Rule[Any]]) -> Iterator[Probe[Any]]:
    """Yield the probes of the rules that have something to judge, before anything is read; some come several times."""
    for rule in rules:
        if any(not rule.pointless(subject) for subject in book.subjects(rule.scope, evidence)):
            yield from rule.probes


@dataclass(frozen=True, slots=True)
class _Judging(Generic[E]):
    """The rules of a book over some evidence."""

    book: RuleBook[E]
    evidence: E

    def each(self, rule: Rule[Any]) -> Iterator[Finding]:
        """Yield a rule's findings about each subject."""
        for subject in self.book.subjects(rule.scope, self.evidence):
            if reason := rule.pointless(subject):
                yield self._finding(rule, subject, skip(reason))
                continue
            try:
                for judgement in rule.judge(subject):
                    yield self._finding(rule, subject, judgement)
            except Unread as unread:
                if not unread.unknown.device_failed:
                    yield _unread_finding(rule, subject, unread)

    def sum_up(self, rule: Rule[Any]) -> Sequence[Finding]:
        """Return what is wrong; if nothing is, whether the rule could be judged at all."""
        subjects = list(self.book.subjects(rule.scope, self.evidence))
        wrong: list[Finding] = []
        reasons: list[str] = []
        absent: list[str] = []
        for subject in subjects:
            if reason := rule.pointless(subject):
                reasons.append(reason)
                continue
            try:
                wrong += [self._finding(rule, subject, judgement) for judgement in rule.judge(subject)]
            except Absent as error:
                absent.append(str(error))
            except NotJudged as error:
                reasons.append(str(error))
        if wrong:
            return wrong
        judged = len(subjects) - len(reasons) - len(absent)
        if not judged:
            reason = _not_judged(rule, reasons or absent) or self.book.no_subject.format(scope=rule.scope)
            return [_conclude(rule, Verdict.SKIPPED, reason)]
        where = "" if rule.scope == "cluster" else f" on {_count(judged, rule)}"
        observed = "; ".join(filter(None, (f"found nothing{where}", _not_judged(rule, reasons))))
        missing = self.book.missing(self.evidence) if rule.needs_all else ""
        if missing:
            return [_conclude(rule, Verdict.UNKNOWN, f"{observed}, but {missing}")]
        return [_conclude(rule, Verdict.OK, observed)]

    def _finding(self, rule: Rule[Any], subject: Subject, judgement: Judgement) -> Finding:
        judged, span = judgement.subject or subject.subject, judgement.span
        is_wrong = judgement.verdict in WRONG
        remedy = judgement.remedy or (judgement.fix.remedy if judgement.fix else "")
        if is_wrong and not remedy:
            remedy = self.book.advice(self.evidence, rule.fix, judged)
        finding = Finding(
            check=rule.name,
            subject=judged,
            verdict=judgement.verdict,
            expected=judgement.expected,
            observed=judgement.observed,
            why=rule.why,
            remedy=remedy,
            fix=judgement.fix,
            evidence=judgement.evidence,
            essential=rule.essential if judgement.essential is None else judgement.essential,
            since=span.start if span else None,
            until=max(span) if span else None,
            certainty=judgement.certainty or (self.book.certainty if is_wrong else None),
        )
        return self.book.complete(self.evidence, finding) if is_wrong else finding


def _unread_finding(rule: Rule[Any], subject: Subject, unread: Unread) -> Finding:
    return Finding(
        check=rule.name,
        subject=unread.device if rule.scope in ("rail", "cluster") else subject.subject,
        verdict=Verdict.UNKNOWN,
        expected=rule.title,
        observed=unread.unknown.reason,
        why=rule.why,
        remedy=unread.unknown.remedy,
        evidence=unread.unknown.evidence,
        essential=rule.essential,
    )


def _conclude(rule: Rule[Any], verdict: Verdict, observed: str) -> Finding:
    """Return a finding about the cluster, with nothing to do."""
    return Finding(check=rule.name, subject="cluster", verdict=verdict, expected="", observed=observed, why=rule.why)


def _not_judged(rule: Rule[Any], reasons: Sequence[str]) -> str:
    """Return why a rule did not judge: the first reason, and for how many more subjects there is one."""
    first, *others = reasons or [""]
    return f"{first}; {_count(len(others), rule, 'other ')} not judged either" if others else first


def _count(number: int, rule: Rule[Any], which: str = "") -> str:
    return plural(number, f"{which}{rule.scope}", f"{which}switches" if rule.scope == "switch" else "")


def _condense(findings: Iterable[Finding], most: int) -> Iterator[Finding]:
    """Yield a few findings of each rule about a subject with the same verdict; the last one counts the others."""
    for same in group_by(findings, key=lambda finding: (finding.check, finding.subject, finding.verdict)):
        first, more = same[:most], same[most:]
        if more:
            again = f"{first[-1].observed}; it happened {plural(len(more), 'more time')}"
            first[-1] = replace(first[-1], observed=again, until=more[-1].until)
        yield from first
