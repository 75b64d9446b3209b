"""Ports with the same finding, of a device or of alike nodes, share one entry, with the remedy of the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from railbed.model.record import Finding
from railbed.present.grouping import group_by
from railbed.present.masks import NameMask
from railbed.present.names import name_range
from railbed.present.wording import counted


@dataclass(frozen=True, slots=True)
class PortGroup:
    """A finding that some ports of a device have in common."""

    ports: str
    """Their names; empty for a finding about the device itself."""
    finding: Finding
    """That of the first port of the first node; what was observed and expected names all."""
    times: int = 1
    """How often each port has it: a repeated measurement may fail again."""
    likewise: str = ""
    """For which other ports, and on which other nodes, the remedy has to be repeated."""

    @property
    def text(self) -> str:
        """What was observed."""
        return self.finding.observed + (f" ({self.times} times)" if self.times > 1 else "")


def port_groups(alike: Iterable[Sequence[Finding]], mask: NameMask, *, merged: bool = True) -> list[PortGroup]:
    """Return the findings of a device in order of first occurrence, those of alike ports together if `merged`.

    Each comes with those of the nodes that are alike.
    """
    repeats = group_by(alike, key=lambda same: (same[0].subject, _texts(same[0])))

    def key(members: Sequence[Sequence[Finding]]) -> tuple[object, ...]:
        finding = members[0][0]
        port = "" if merged and "/" in finding.subject else finding.subject
        return port, len(members), _texts(_generalise(finding, mask))

    return [_port_group(members, mask) for members in group_by(repeats, key)]


def _port_group(members: Sequence[Sequence[Sequence[Finding]]], mask: NameMask) -> PortGroup:
    ordered = sorted((repeats[0] for repeats in members), key=lambda same: counted(same[0].subject))
    findings, first = [same[0] for same in ordered], ordered[0][0]
    every = [finding for same in ordered for finding in same]
    shown = replace(
        first,
        observed=mask.common([(finding.observed, finding.subject) for finding in every]),
        expected=mask.common([(finding.expected, finding.subject) for finding in every]),
    )
    on_ports = mask.likewise([finding.subject for finding in findings], [(finding.remedy,) for finding in findings])
    on_nodes = mask.likewise_on_nodes([finding.subject for finding in ordered[0]], first.remedy)
    ports = name_range(finding.subject.partition("/")[2] for finding in findings)
    return PortGroup(ports, shown, len(members[0]), "; ".join(filter(None, (on_ports, on_nodes))))


def _texts(finding: Finding) -> tuple[str, ...]:
    return finding.check, finding.verdict, finding.observed, finding.expected, finding.remedy


def _generalise(finding: Finding, mask: NameMask) -> Finding:
    """Return a finding whose texts hold for any port of the device."""
    return replace(
        finding,
        expected=mask.without_port(finding.expected, finding.subject),
        observed=mask.without_port(finding.observed, finding.subject),
        remedy=mask.without_port(finding.remedy, finding.subject),
    )
