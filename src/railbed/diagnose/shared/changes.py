"""What the check at the moment of a restart found that was in order before the launch."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.diagnose.evidence import Evidence
from railbed.model.events.milestones import RETURNED
from railbed.model.record import Finding
from railbed.present.changed import may_explain
from railbed.store.timeline import Mark


def failures(evidence: Evidence) -> list[Mark]:
    """Return the restarts that were not planned: those that use a node again are."""
    return [mark for mark in evidence.marks("restart") if not mark.text.endswith(RETURNED)]


def changes_at(evidence: Evidence, restart: Mark) -> list[Finding]:
    """Return what had become worse at a restart, failures before warnings."""
    findings = evidence.timeline.findings()
    worse = [finding for finding in findings if finding.is_of_restart(restart.generation, restart.time)]
    return sorted(worse, key=lambda finding: finding.verdict.rank)


def causes_of(restart: Mark, changes: Sequence[Finding]) -> list[Finding]:
    """Return the changes that can be the cause of a restart."""
    return [finding for finding in changes if may_explain(finding, restart.subject, restart.text)]


def remedies(findings: Sequence[Finding]) -> str:
    """Return what to do about findings, each remedy once."""
    return "; ".join(dict.fromkeys(finding.remedy for finding in findings if finding.remedy))
