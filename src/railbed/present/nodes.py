"""Nodes with the same findings share one block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from railbed.model.record import Finding, Verdict
from railbed.present.grouping import group_by
from railbed.present.masks import NameMask

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes (or rails, or switches) and their common findings."""

    names: tuple[str, ...]
    alike: list[tuple[Finding, ...]]
    """Each finding of the first node, with that of every other node."""

    @property
    def findings(self) -> list[Finding]:
        """The findings of the first node."""
        return [same[0] for same in self.alike]


def blocks(groups: Iterable[tuple[str, list[Finding]]], mask: NameMask, *, verbose: bool) -> list[NodeGroup]:
    """Merge nodes with the same findings, in order of first occurrence; `verbose` also compares passing checks."""
    named = [_Member(name, findings, _keys(name, findings, mask, verbose=verbose)) for name, findings in groups]
    together = group_by(named, key=lambda member: tuple(sorted(member.keys)))
    return [NodeGroup(tuple(member.name for member in members), _alike(members)) for members in together]


@dataclass(frozen=True, slots=True)
class _Member:
    """A node with its findings, and for each a key that is equal for findings which look the same on the screen."""

    name: str
    findings: Sequence[Finding]
    keys: Sequence[Key]


def _alike(members: Sequence[_Member]) -> list[tuple[Finding, ...]]:
    """Return each finding of the first node with those of the others, which may have another order."""
    waiting: list[dict[Key, list[Finding]]] = [{} for _ in members]
    for member, own in zip(members, waiting, strict=True):
        for key, finding in zip(member.keys, member.findings, strict=True):
            own.setdefault(key, []).append(finding)
    return [tuple(own[key].pop(0) for own in waiting) for key in members[0].keys]


def _keys(name: str, findings: Iterable[Finding], mask: NameMask, *, verbose: bool) -> list[Key]:
    return [_shown(name, _generalise(finding, mask), verbose=verbose) for finding in findings]


def _generalise(finding: Finding, mask: NameMask) -> Finding:
    """Return a finding whose texts hold for the same port of any node."""
    return replace(
        finding,
        expected=mask.without_node(finding.expected, finding.subject),
        observed=mask.without_node(finding.observed, finding.subject),
        remedy=mask.without_node(finding.remedy, finding.subject),
    )


def _shown(name: str, finding: Finding, *, verbose: bool) -> Key:
    port = finding.subject.removeprefix(name)
    if not verbose and finding.verdict is Verdict.OK:
        return finding.check, finding.verdict
    if not verbose and finding.verdict is Verdict.SKIPPED:
        return finding.check, finding.verdict, finding.observed
    return finding.check, finding.verdict, port, finding.observed, finding.expected, finding.remedy
