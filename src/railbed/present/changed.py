"""What became worse during a training, in one line: on the terminal, in the report, and as the cause of a restart."""

from __future__ import annotations

from railbed.model.record import Finding


def describe_change(finding: Finding) -> str:
    """Return `node2/rail0: MTU 1400, before the launch: MTU 9000 (mtu)`."""
    return f"{finding.subject}: {before_the_launch(finding)}"


def before_the_launch(finding: Finding) -> str:
    """Return `MTU 1400, before the launch: MTU 9000 (mtu)`."""
    before = f", before the launch: {finding.before}" if finding.before else ""
    return f"{finding.observed}{before} ({finding.check})"
