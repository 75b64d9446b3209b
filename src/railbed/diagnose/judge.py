"""Every rule over a run: pure, from evidence to findings.

A verdict that another one explains is skipped, with that reason: if a node froze, the others lost packets to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from railbed import catalog
from railbed.check.explain import Explanation, conclude, wrong_first
from railbed.check.form import subjects_of
from railbed.diagnose import rules
from railbed.diagnose.evidence import Evidence, NotJudged, NotMeasured
from railbed.diagnose.rule import Judgement, Rule
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Verdict
from railbed.model.text.amount import plural
from railbed.present.grouping import group_by

MOST_EPISODES = 3
"""Findings of a rule about the same subject; more are counted in the last one."""
SLACK_SECONDS = 6.0
"""How long the effects of a fault may precede or outlast what is known of the fault itself."""


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by name."""
    return catalog.collect(rules, Rule, "RULE")


def diagnose(evidence: Evidence, chosen: Iterable[Rule] | None = None) -> list[Finding]:
    """Return what the rules conclude about a run: what went wrong in order of time, then the rest by rule."""
    chosen = all_rules().values() if chosen is None else chosen
    explained = Explanation(partial(_same_place, evidence.cluster), SLACK_SECONDS).apply(
        chosen, lambda rule: _judge(rule, evidence)
    )
    return wrong_first(_condense(explained), key=lambda finding: (finding.since or 0.0, finding.verdict.rank))


def _judge(rule: Rule, evidence: Evidence) -> list[Finding]:
    """Return what is wrong; if nothing is, whether the rule could be judged at all."""
    subjects = list(subjects_of(rule.scope, evidence))
    wrong: list[Finding] = []
    reasons: list[str] = []
    for subject in subjects:
        try:
            wrong += [_finding(rule, subject.subject, judgement, evidence) for judgement in rule.judge(subject)]
        except (NotMeasured, NotJudged) as error:
            reasons.append(str(error))
    if wrong:
        return wrong
    if len(reasons) == len(subjects):
        return [conclude(rule, Verdict.SKIPPED, _skipped(rule, reasons) or f"the cluster file has no {rule.scope}")]
    where = "" if rule.scope == "cluster" else f" on {_count(len(subjects) - len(reasons), rule)}"
    return [conclude(rule, Verdict.OK, "; ".join(filter(None, (f"found nothing{where}", _skipped(rule, reasons)))))]


def _skipped(rule: Rule, reasons: Sequence[str]) -> str:
    """Return why the rule was not judged: the first reason, and for how many more subjects there is one."""
    first, *others = reasons or [""]
    return f"{first}; {_count(len(others), rule, 'other ')} not judged either" if others else first


def _count(number: int, rule: Rule, which: str = "") -> str:
    return plural(number, f"{which}{rule.scope}", f"{which}switches" if rule.scope == "switch" else "")


def _finding(rule: Rule, subject: str, judgement: Judgement, evidence: Evidence) -> Finding:
    span = judgement.span
    lasts = span is not None and span.end >= evidence.span.end - 2.0
    return Finding(
        check=rule.name,
        subject=judgement.subject or subject,
        verdict=judgement.verdict,
        expected=judgement.expected,
        observed=judgement.observed,
        why=rule.why,
        remedy=_remedy(judgement.remedy or rule.fix, judgement.subject or subject),
        evidence=judgement.evidence,
        since=span.start if span else None,
        until=max(span) if span and not lasts else None,
        certainty=judgement.certainty,
    )


def _remedy(text: str, subject: str) -> str:
    """Return a remedy with the interface in its commands; IF stands for it if the subject is not a port."""
    interface = subject.partition("/")[2]
    return text.replace(" IF`", f" {interface}`") if interface else text


def _condense(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield a few findings of each rule about a subject with the same verdict; the last one counts the others."""
    for same in group_by(findings, key=lambda finding: (finding.check, finding.subject, finding.verdict)):
        first, more = same[:MOST_EPISODES], same[MOST_EPISODES:]
        if more:
            again = f"{first[-1].observed}; it happened {plural(len(more), 'more time')}"
            first[-1] = replace(first[-1], observed=again, until=more[-1].until)
        yield from first


def _same_place(cluster: Cluster, first: str, second: str) -> bool:
    """Whether two subjects are the same device, or a rail and a port on it."""
    if "cluster" in (first, second) or first.partition("/")[0] == second.partition("/")[0]:
        return True
    return first in _rails_of(cluster, second) or second in _rails_of(cluster, first)


def _rails_of(cluster: Cluster, subject: str) -> set[str]:
    """Return the rail of a port of a node; none for other subjects."""
    name, _, netdev = subject.partition("/")
    node = cluster.nodes.get(name)
    return {port.rail for port in node.ports if port.netdev == netdev} if node else set()
