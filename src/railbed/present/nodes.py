"""Nodes with the same findings share one block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from railbed.model.record import Finding, Verdict
from railbed.present.grouping import group_by
from railbed.present.masks import NameMask

Key = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes (or rails, or switches) and their common findings."""

    names: tuple[str, ...]
    findings: list[Finding]


def blocks(groups: Iterable[tuple[str, list[Finding]]], mask: NameMask, *, verbose: bool) -> list[NodeGroup]:
    """Merge nodes with the same findings, in order of first occurrence; `verbose` also compares passing checks."""
    named = [(name, findings, [_generalise(finding, mask) for finding in findings]) for name, findings in groups]
    together = group_by(named, key=lambda member: _key(member[0], member[2], verbose=verbose))
    return [
        NodeGroup(tuple(name for name, _, _ in members), members[0][1] if len(members) == 1 else members[0][2])
        for members in together
    ]


def _generalise(finding: Finding, mask: NameMask) -> Finding:
    """Return a finding whose texts hold for the same port of any node."""
    return replace(
        finding,
        expected=mask.without_node(finding.expected, finding.subject),
        observed=mask.without_node(finding.observed, finding.subject),
        remedy=mask.without_node(finding.remedy, finding.subject),
    )


def _key(name: str, findings: Iterable[Finding], *, verbose: bool) -> Key:
    """Return a key that is equal for nodes that look the same on the screen."""
    return tuple(sorted(_shown(name, finding, verbose=verbose) for finding in findings))


def _shown(name: str, finding: Finding, *, verbose: bool) -> tuple[str, ...]:
    port = finding.subject.removeprefix(name)
    if not verbose and finding.verdict is Verdict.OK:
        return finding.check, finding.verdict
    if not verbose and finding.verdict is Verdict.SKIPPED:
        return finding.check, finding.verdict, finding.observed
    return finding.check, finding.verdict, port, finding.observed, finding.expected, finding.remedy
