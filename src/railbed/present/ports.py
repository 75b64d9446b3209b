"""Ports of a device with the same finding share one entry, with the remedy of the first."""

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
    """That of the first port; what was observed and expected holds for all."""
    times: int = 1
    """How often each port has it: a repeated measurement may fail again."""
    likewise: str = ""
    """For which other ports the remedy has to be repeated."""

    @property
    def text(self) -> str:
        """What was observed."""
        return self.finding.observed + (f" ({self.times} times)" if self.times > 1 else "")


def port_groups(findings: Iterable[Finding], mask: NameMask, *, merged: bool = True) -> list[PortGroup]:
    """Return the findings of a device in order of first occurrence, those of alike ports together if `merged`."""
    repeats = group_by(findings, key=lambda finding: (finding.subject, _texts(finding)))

    def key(members: Sequence[Finding]) -> tuple[object, ...]:
        finding = members[0]
        port = "" if merged and "/" in finding.subject else finding.subject
        return port, len(members), _texts(_generalise(finding, mask))

    return [_port_group(members, mask) for members in group_by(repeats, key)]


def _port_group(members: Sequence[Sequence[Finding]], mask: NameMask) -> PortGroup:
    findings = sorted((repeats[0] for repeats in members), key=lambda finding: counted(finding.subject))
    first = findings[0]
    ports = [finding.subject.partition("/")[2] for finding in findings]
    if len(findings) == 1:
        return PortGroup(ports[0], first, len(members[0]))
    shown = replace(_generalise(first, mask), remedy=first.remedy)
    likewise = mask.likewise([finding.subject for finding in findings], [(finding.remedy,) for finding in findings])
    return PortGroup(name_range(ports), shown, len(members[0]), likewise)


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
