"""The rules of `check`: each judges every subject, from the facts of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from railbed.check import rules
from railbed.check.advice import fill_in
from railbed.check.shared.bmc import bmcs_of
from railbed.model.cluster import Cluster
from railbed.model.probe import Probe
from railbed.model.record import Finding, Verdict
from railbed.rules import engine
from railbed.rules.book import RuleBook, parts_of_cluster
from railbed.rules.rule import Rule, Scope, Subject
from railbed.rules.site import Site

PORTS_MISSING = "`railbed discover HOST…` writes a cluster file with the ports of machines"
SWITCHES_MISSING = "`railbed discover --switch HOST` adds a switch and its cables"
BMCS_MISSING = "add `bmc:` to nodes in the cluster file (docs/bmc.md)"


def _subjects(scope: Scope, site: Site) -> Iterable[Subject]:
    match scope:
        case "cable":
            return site.cables
        case "RDMA port":
            return (port for node in site.nodes for port in node.rdma_ports)
        case "BMC":
            return bmcs_of(site)
        case _:
            return parts_of_cluster(scope, site)


CHECK_BOOK: RuleBook[Site] = RuleBook(
    package=rules,
    subjects=_subjects,
    sums_up=False,
    advice=lambda site, remedy, subject: fill_in(remedy, site.cluster, subject),
)


def probes_needed(rules: Iterable[Rule[Any]], cluster: Cluster) -> Iterator[Probe[Any]]:
    """Yield what some rules read on a cluster: nothing for those that the file alone decides, such as without RDMA."""
    return engine.probes_needed(CHECK_BOOK, Site(cluster), rules)


def without_subject(rules: Iterable[Rule[Any]], cluster: Cluster) -> list[Finding]:
    """Return a finding for each rule that has nothing to judge, whatever the devices report: no port, no switch."""
    site = Site(cluster)
    return [
        Finding(
            check=rule.name,
            subject=site.subject,
            verdict=Verdict.SKIPPED,
            expected="",
            observed=CHECK_BOOK.no_subject.format(scope=rule.scope),
            why=rule.why,
            remedy=_how_to_add(rule.scope),
        )
        for rule in rules
        if not any(True for _ in CHECK_BOOK.subjects(rule.scope, site))
    ]


def _how_to_add(scope: Scope) -> str:
    if scope == "BMC":
        return BMCS_MISSING
    return SWITCHES_MISSING if "switch" in scope or scope == "cable" else PORTS_MISSING


def usual_checks() -> list[Rule[Any]]:
    """Return the rules that are judged unless some are named."""
    return [rule for rule in CHECK_BOOK.rules.values() if not rule.on_request]


def essential_checks() -> list[Rule[Any]]:
    """Return the rules that training depends on."""
    return [rule for rule in CHECK_BOOK.rules.values() if rule.essential]


def restart_checks() -> list[Rule[Any]]:
    """Return the rules that are judged again when the ranks of a training restart."""
    return [rule for rule in CHECK_BOOK.rules.values() if rule.at_restart]
