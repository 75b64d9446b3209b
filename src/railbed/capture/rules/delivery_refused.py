"""A receiver refused a request.

What
----
A receiver answered with a NAK that ends the connection: invalid request, remote access error, remote operational
error.

Why
---
The connection is in error from then on, and the application fails ("status 9, 10 or 11"). It is a fault of the
software, of permissions or of memory registration, not of the network.

Fix
---
Look at the logs of both ranks at that time. After a restart of one side, the other may still use old keys: restart
both. `railbed diagnose` names the rank that failed first.

Source
------
InfiniBand architecture, 9.7.5.2 (NAK codes); ibv_poll_cq(3), IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
IBV_WC_REM_OP_ERR.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.proof import proof_from
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule

REASONS = ("invalid request", "remote access", "remote operation")


def judge(path: PathView) -> Iterator[Judgement]:
    """Look for refusals that are not about order or buffers."""
    for reason in REASONS:
        views = [(view, view.answers) for flow in path.connections for view in flow.views[:1] if view.answers]
        refused = [(view, answers) for view, answers in views if reason in answers.refusals]
        if refused:
            count = sum(answers.refusals[reason] for _, answers in refused)
            times = "once" if count == 1 else f"{count:,} times"
            yield fail(
                f"{path.receiver} refused requests from {path.sender} {times}: {reason}",
                *(proof_from(view.recording, view.clock, answers.rows_of(reason), "NAK") for view, answers in refused),
                certainty="certain",
                expected="requests are accepted",
                subject=path.context.port(path.destination),
            )


RULE = Rule(
    name="delivery_refused",
    title="a receiver refused a request",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
)
