"""A list to tick while a cluster is brought up: what a person does, then what the rules judge, stage by stage.

All of it is the rules' own data, for the names of the cluster file; findings of earlier checks tick what passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from railbed.check.advice import fill_in
from railbed.check.book import CHECK_BOOK, usual_checks
from railbed.check.rules import reachable
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Verdict
from railbed.rules.rule import Rule, Scope, Stage, Subject
from railbed.rules.site import Site

STAGE_OF_SCOPE: Mapping[Scope, Stage] = {
    "node": "host",
    "port": "card",
    "RDMA port": "card",
    "cable": "cabling",
    "switch": "switch",
    "switch port": "switch",
    "rail": "rail",
    "BMC": "power",
    "cluster": "host",
}
"""Of rules that name no stage."""
PASSED = (Verdict.OK, Verdict.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistItem:
    """One box: something that a person does by hand, or that a rule judges."""

    stage: Stage
    text: str
    subjects: tuple[str, ...]
    """Nodes, ports, rails, switches or the cluster that it is about."""
    by_hand: bool
    check: str
    """The rule that judges it, or before which a person does it."""
    command: str
    """Shows whether it is done, or explains it if nothing can show that."""
    verdict: Verdict | None = None
    """The worst one of the newest check; None if it was not checked, or if no rule can."""
    remaining: tuple[str, ...] = ()
    """What the newest check found wrong: `node/port: what was observed`."""
    time: float | None = None
    """When that was."""
    kind: Literal["checklist_item"] = "checklist_item"

    @property
    def is_done(self) -> bool:
        """Whether the newest check shows that it is as it should be, or that it does not apply."""
        return self.verdict in PASSED


def list_boxes(
    cluster: Cluster, findings: Iterable[Finding] = (), rules: Sequence[Rule[Any]] = ()
) -> list[ChecklistItem]:
    """Return the boxes of some rules, or of all usual ones, in the order in which a cluster is brought up.

    A rule that has nothing to judge on this cluster has none.
    """
    boxes = _Boxes(Site(cluster), list(findings))
    ordered = sorted(rules or usual_checks(), key=lambda rule: (rule.rank, rule.name))
    items = [
        item for yield_items in (boxes.by_hand, boxes.list_judged) for rule in ordered for item in yield_items(rule)
    ]
    return [item for stage in get_args(Stage) for item in items if item.stage == stage]


class _Boxes:
    """What is known of a cluster, and the boxes of a rule."""

    def __init__(self, site: Site, findings: Iterable[Finding]) -> None:
        self._site = site
        self._findings: dict[str, list[Finding]] = {}
        for finding in findings:
            self._findings.setdefault(finding.check, []).append(finding)
        answers = self._findings.get(reachable.RULE.name, ())
        self._silent = [answer.subject for answer in answers if answer.verdict not in PASSED]

    def by_hand(self, rule: Rule[Any]) -> Iterator[ChecklistItem]:
        """Yield what a person does: the same for several subjects is one box."""
        same: dict[tuple[str, bool], list[str]] = {}
        for subject in self._subjects(rule) if rule.by_hand else ():
            for step in rule.by_hand(subject) if rule.by_hand else ():
                text = fill_in(step.text, self._site.cluster, step.subject)
                same.setdefault((text, step.proven), []).append(step.subject)
        for (text, proven), subjects in same.items():
            item = _item(rule, text, subjects, by_hand=True)
            if proven:
                yield self._with_state(item, [own for own in self._of(rule) if own.subject in subjects], subjects)
            else:
                yield replace(item, command=f"railbed check --explain {rule.name}")

    def list_judged(self, rule: Rule[Any]) -> Iterator[ChecklistItem]:
        """Yield what a rule judges, if there is something."""
        if subjects := [subject.subject for subject in self._subjects(rule)]:
            # Of a rail or the cluster, only what answered was judged.
            needed = self._silent if rule.scope in ("rail", "cluster") else subjects
            yield self._with_state(_item(rule, rule.title, subjects, by_hand=False), self._of(rule), needed)

    def _subjects(self, rule: Rule[Any]) -> list[Subject]:
        subjects = CHECK_BOOK.subjects(rule.scope, self._site)
        return [subject for subject in subjects if not rule.pointless(subject)]

    def _of(self, rule: Rule[Any]) -> list[Finding]:
        return self._findings.get(rule.name, [])

    def _with_state(self, item: ChecklistItem, findings: Sequence[Finding], needed: Iterable[str]) -> ChecklistItem:
        """Return a box with what was found; subjects that were not judged, such as on a dead node, remain."""
        if not findings:
            return item
        judged = {finding.subject for finding in findings}
        missing = [f"{subject}: not checked" for subject in needed if subject not in judged]
        worst = min((finding.verdict for finding in findings), key=lambda verdict: verdict.rank)
        return replace(
            item,
            verdict=Verdict.UNKNOWN if missing and worst in PASSED else worst,
            remaining=(*map(_describe, filter(_is_wrong, findings)), *missing),
            time=max(finding.time for finding in findings),
        )


def _item(rule: Rule[Any], text: str, subjects: Sequence[str], *, by_hand: bool) -> ChecklistItem:
    return ChecklistItem(
        stage=rule.stage or STAGE_OF_SCOPE[rule.scope],
        text=text,
        subjects=tuple(subjects),
        by_hand=by_hand,
        check=rule.name,
        command=f"railbed check {rule.name}",
    )


def _is_wrong(finding: Finding) -> bool:
    return finding.verdict not in PASSED


def _describe(finding: Finding) -> str:
    return f"{finding.subject}: {finding.observed}"
