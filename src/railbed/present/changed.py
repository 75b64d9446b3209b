"""What became worse during a training, in one line: on the terminal, in the report, and as the cause of a restart."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.events.general import LOST_OTHERS
from railbed.model.record import Finding, Verdict
from railbed.model.text import plural

MOST_NAMED = 3
NO_LINK = "up, but no link"
"""What the rule `link_up` observes of a link that lost its carrier, and `diagnose` recognises it by."""


def may_explain(finding: Finding, subject: str, message: str) -> bool:
    """Whether a change can be the cause of a restart: not if the ranks blamed another node for it."""
    blamed = subject.partition("/")[0]
    return not blamed or LOST_OTHERS in message or finding.subject.partition("/")[0] in (blamed, "cluster")


def explain_restart(changes: Sequence[Finding], subject: str, message: str) -> str:
    """Return what had changed by the time of a restart, and whether that is its cause; empty if nothing had."""
    causes = [finding for finding in changes if may_explain(finding, subject, message)]
    if not causes:
        return f"since the launch had also changed: {_list_worst(changes)}" if changes else ""
    failed = any(finding.verdict is Verdict.FAIL for finding in causes)
    return f"{'probable' if failed else 'possible'} cause: {_list_worst(causes)}"


def describe_change(finding: Finding) -> str:
    """Return `node2/rail0: MTU 1400, before the launch: MTU 9000 (mtu)`."""
    return f"{finding.subject}: {before_the_launch(finding)}"


def before_the_launch(finding: Finding) -> str:
    """Return `MTU 1400, before the launch: MTU 9000 (mtu)`."""
    before = f", before the launch: {finding.before}" if finding.before else ""
    return f"{finding.observed}{before} ({finding.check})"


def _list_worst(changes: Sequence[Finding]) -> str:
    """Return the worst changes, and how many more there are."""
    worst = sorted(changes, key=lambda finding: finding.verdict.rank)
    named = [describe_change(finding) for finding in worst[:MOST_NAMED]]
    more = [plural(len(worst) - MOST_NAMED, "more finding")] if len(worst) > MOST_NAMED else []
    return "; ".join([*named, *more])
