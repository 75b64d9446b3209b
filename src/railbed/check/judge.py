"""Applies rules to a site: pure, from facts to findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from railbed import catalog
from railbed.check import rules
from railbed.check.advice import fill_in
from railbed.check.form import Subject, subjects_of
from railbed.check.rule import Check, Judgement
from railbed.check.site import RailView, Site, Unread
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.model.record import WRONG, Finding, Verdict

F = TypeVar("F")


@cache
def all_checks() -> Mapping[str, Check[Any]]:
    """Return every rule by name."""
    return catalog.collect(rules, Check, "CHECK")


def usual_checks() -> list[Check[Any]]:
    """Return the rules that are judged unless some are named."""
    return [check for check in all_checks().values() if not check.on_request]


def essential_checks() -> list[Check[Any]]:
    """Return the rules that training depends on."""
    return [check for check in all_checks().values() if check.essential]


def restart_checks() -> list[Check[Any]]:
    """Return the rules that are judged again when the ranks of a training restart."""
    return [check for check in all_checks().values() if check.at_restart]


class _WouldRead(Exception):
    """Raised when a rule reads facts before there are any."""


class _NotReadYet(DeviceFacts):
    """A device before anything was read from it."""

    def _reading(self, probe: Probe[F], index: int) -> Known[F] | Unknown:
        raise _WouldRead(f"reading {index} of {probe.name}")


def probes_needed(checks: Iterable[Check[Any]], cluster: Cluster) -> Iterator[Probe[Any]]:
    """Yield the probes that the rules read on this cluster; none for a rule that the file alone decides (no RDMA)."""
    before = Site(cluster, {name: _NotReadYet(device=name) for name in (*cluster.nodes, *cluster.switches)})
    for check in checks:
        try:
            for subject in _subjects(check, before):
                list(check.judge(subject))
        except _WouldRead:
            yield from check.needs


def judge_site(checks: Iterable[Check[Any]], site: Site) -> Iterator[Finding]:
    """Yield the findings of the rules, subject by subject."""
    for check in checks:
        for subject in _subjects(check, site):
            yield from _judge_subject(check, subject, site.cluster)


def _subjects(check: Check[Any], site: Site) -> Iterable[Subject]:
    return site.cables if check.scope == "cable" else subjects_of(check.scope, site)


def _judge_subject(check: Check[Any], subject: Subject, cluster: Cluster) -> Iterator[Finding]:
    try:
        for judgement in check.judge(subject):
            yield _finding(check, subject, judgement, cluster)
    except Unread as unread:
        if not unread.unknown.device_failed:
            yield _unread_finding(check, subject, unread)


def _finding(check: Check[Any], subject: Subject, judgement: Judgement, cluster: Cluster) -> Finding:
    judged = judgement.subject or subject.subject
    general = fill_in(check.fix, cluster, judged) if judgement.verdict in WRONG else ""
    return Finding(
        check=check.name,
        subject=judged,
        verdict=judgement.verdict,
        expected=judgement.expected,
        observed=judgement.observed,
        why=check.why,
        remedy=judgement.remedy or (judgement.fix.remedy if judgement.fix else general),
        fix=judgement.fix,
        evidence=judgement.evidence,
        essential=check.essential if judgement.essential is None else judgement.essential,
    )


def _unread_finding(check: Check[Any], subject: Subject, unread: Unread) -> Finding:
    return Finding(
        check=check.name,
        subject=unread.device if isinstance(subject, RailView | Site) else subject.subject,
        verdict=Verdict.UNKNOWN,
        expected=check.title,
        observed=unread.unknown.reason,
        why=check.why,
        remedy=unread.unknown.remedy,
        evidence=unread.unknown.evidence,
        essential=check.essential,
    )
