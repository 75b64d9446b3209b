"""Congestion notifications are lost on the way.

What
----
A port sends notifications (CNP) that do not arrive at the sender of the data. Needs recordings of both ends.

Why
---
The congestion that a notification reports is on its own way back, too, if it has no queue of its own. Then senders
slow down late or not at all.

Fix
---
Give notifications their own queue with strict priority: `railbed check cnp_dscp switch_cnp`.

Source
------
Cisco NX-OS, class CNP with priority level 1; Zhu et al., SIGCOMM 2015.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Absent, NotJudged, Rule

LEAST_LOST = 3
LEAST_SHARE = 0.05


def judge(path: PathView) -> Iterator[Judgement]:
    """Compare the notifications at both ends."""
    legs = [leg for flow in path.flows for leg in flow.legs if leg.journey.notices_sent]
    if not legs:
        raise Absent(f"no notifications from {path.sender} to {path.receiver} were recorded at both ends")
    if any(leg.arrived.recording.dropped != 0 for leg in legs):
        raise NotJudged(f"nobody knows how many packets the recorder at {path.receiver} dropped")
    sent = sum(leg.journey.notices_sent for leg in legs)
    lost = sent - sum(leg.journey.notices_arrived for leg in legs)
    if lost >= LEAST_LOST and lost >= LEAST_SHARE * sent:
        yield fail(
            f"{lost:,} of {sent:,} notifications were lost {path.between}",
            *(proof_of(leg.sent, leg.sent.view.notices, "CNP sent") for leg in legs[:2]),
            expected="notifications arrive",
        )


RULE = Rule(
    name="reaction_lost",
    title="notifications are lost on the way",
    scope="path",
    judge=judge,
    doc=__doc__,
)
