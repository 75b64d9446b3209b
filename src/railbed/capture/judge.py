"""Every rule over an analysis: pure, from recordings to findings.

A verdict that another one explains is skipped, with that reason. A rule that finds nothing wrong is ok only if it could
judge: without the packets that it needs it is skipped, and with recorders that dropped packets it may be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from railbed import catalog
from railbed.capture import rules
from railbed.capture.analysis.results import Analysis
from railbed.capture.rule import Judgement, NothingThere, NotJudged, Rule
from railbed.capture.subjects import ClusterView, PathView, PortView, RecordingView, paths_of, ports_of
from railbed.check.explain import Explanation, conclude, wrong_first
from railbed.model.record import Finding, Verdict
from railbed.model.text.amount import plural

Subject = PortView | PathView | RecordingView | ClusterView


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by name."""
    return catalog.collect(rules, Rule, "RULE")


def judge(analysis: Analysis, chosen: Iterable[Rule] | None = None) -> list[Finding]:
    """Return what the rules conclude: what is wrong in order of time, then the rest by rule."""
    chosen = all_rules().values() if chosen is None else chosen
    explained = Explanation(_same_place).apply(chosen, lambda rule: _judge_rule(rule, analysis))
    return wrong_first(explained, key=lambda finding: (finding.verdict.rank, finding.since or 0.0))


def _subjects(rule: Rule, analysis: Analysis) -> Sequence[Subject]:
    match rule.scope:
        case "port":
            return ports_of(analysis)
        case "path":
            return paths_of(analysis)
        case "recording":
            return [RecordingView(analysis, recording) for recording in analysis.recordings]
        case "cluster":
            return [ClusterView(analysis)]


def _judge_rule(rule: Rule, analysis: Analysis) -> list[Finding]:
    """Return what is wrong; if nothing is, whether the rule could be judged at all."""
    subjects = _subjects(rule, analysis)
    wrong: list[Finding] = []
    reasons: list[str] = []
    absent: list[str] = []
    for subject in subjects:
        try:
            wrong += [_finding(rule, subject.subject, judgement) for judgement in rule.judge(subject)]
        except NothingThere as error:
            absent.append(str(error))
        except NotJudged as error:
            reasons.append(str(error))
    if wrong:
        return wrong
    judged = len(subjects) - len(reasons) - len(absent)
    if not judged:
        return [conclude(rule, Verdict.SKIPPED, _reason(reasons or absent))]
    observed = "nothing of the kind" + ("" if rule.scope == "cluster" else f" on {plural(judged, rule.scope)}")
    if reasons:
        observed += f"; {plural(len(reasons), 'other')} not judged: {reasons[0]}"
    missing = _missing(analysis) if rule.needs_all else ""
    if missing:
        return [conclude(rule, Verdict.UNKNOWN, f"{observed}, but {missing}")]
    return [conclude(rule, Verdict.OK, observed)]


def _missing(analysis: Analysis) -> str:
    """Return why packets are missing from the analysis; empty if none are, as far as anybody counted."""
    dropped = sum(recording.dropped or 0 for recording in analysis.recordings)
    if dropped:
        return f"the recorders dropped {plural(dropped, 'packet')}"
    return f"{plural(analysis.left_out, 'packet')} of further flows were not analysed" if analysis.left_out else ""


def _reason(reasons: Sequence[str]) -> str:
    if not reasons:
        return "no RDMA packets were recorded"
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]} (and {len(reasons) - 1} more like it)"


def _finding(rule: Rule, subject: str, judgement: Judgement) -> Finding:
    proofs = judgement.proofs
    return Finding(
        check=rule.name,
        subject=judgement.subject or subject,
        verdict=judgement.verdict,
        expected=judgement.expected,
        observed=judgement.observed,
        why=rule.why,
        remedy=judgement.remedy or rule.fix,
        evidence="\n".join(proof.text for proof in proofs),
        since=min((proof.start for proof in proofs), default=None),
        until=max((proof.end for proof in proofs), default=None),
        certainty=judgement.certainty,
    )


def _same_place(first: str, second: str) -> bool:
    """Whether two subjects are the same path, in either direction, or one is a part of the other."""
    here, there = set(first.split(" → ")), set(second.split(" → "))
    return here <= there or there <= here or "cluster" in (first, second)
