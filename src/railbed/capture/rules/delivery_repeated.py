"""Packets were sent again.

What
----
A sender repeated packets because the receiver asked for them (NAK: sequence error), or because no answer came in
time. Repeats after "receiver not ready" do not count.

Why
---
Repeats mean that packets were lost somewhere: each costs a round trip, and a time-out costs milliseconds to seconds,
in which the other nodes wait.

Fix
---
Record both ends at once to see where packets are lost: `railbed capture` on both nodes. Until then: `railbed check
rdma_errors net_errors switch_counters pfc switch_pfc`.

Source
------
InfiniBand architecture, 9.7.5 (NAK codes) and 9.9 (retries); NVIDIA, packet_seq_err, local_ack_timeout_err.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.results import FlowView, RecordedFlow
from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.model.text import duration, plural
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule

LEAST_REPEATS = 3


def judge(path: PathView) -> Iterator[Judgement]:
    """Add up the repeats in the recording of each flow that shows the most of them."""
    worst = [(flow, _worst(flow)) for flow in path.connections]
    repeated = [(flow, view) for flow, view in worst if view.sequence.resent and _is_loss(view)]
    count = sum(view.sequence.resent for _, view in repeated)
    refusals = sum(view.answers.refusals.get("sequence", 0) for _, view in worst if view.answers)
    if count < LEAST_REPEATS and refusals < LEAST_REPEATS:
        return
    causes = [view.sequence.causes for _, view in repeated]
    time_outs = sum(cause.get("time-out", 0) for cause in causes)
    stall = max((view.sequence.longest_stall for _, view in repeated), default=0)
    waited = f", {plural(time_outs, 'time-out')} of up to {duration(stall / 1e9)}" if time_outs else ""
    proofs = [proof_of(view, view.sequence.resent_rows, "sent again") for _, view in repeated[:2]]
    answered = [view for _, view in worst if view.answers and "sequence" in view.answers.refusals]
    proofs += [
        proof_of(view, view.answers.rows_of("sequence"), "NAK") for view in answered[:2] if view.answers is not None
    ]
    yield warn(
        f"{plural(count, 'packet')} sent again {path.between}; {plural(refusals, 'request')} of the receiver for lost "
        f"packets{waited}",
        *proofs,
        certainty="certain" if refusals or time_outs else "likely",
        expected="no packet is sent twice",
        remedy=_at_both_ends(path) if path.has_both_ends else "",
    )


def _at_both_ends(path: PathView) -> str:
    """Return what to do if it is known how many packets were lost between the ends."""
    lost = sum(len(leg.journey.lost) for flow in path.flows for leg in flow.legs)
    if lost:
        return (
            f"{plural(lost, 'packet')} got lost on the way: `railbed check switch_counters net_errors` shows whether "
            "switches and cards count more"
        )
    return (
        f"nothing got lost on the way: {path.receiver} dropped packets or answered late; look at its processor, and "
        "`railbed check rdma_errors net_errors`"
    )


def _worst(flow: RecordedFlow) -> FlowView:
    return max(flow.views, key=lambda view: view.sequence.resent)


def _is_loss(view: FlowView) -> bool:
    """Whether something other than a receiver that was not ready made the sender go back."""
    return any(cause != "not ready" for cause in view.sequence.causes)


RULE = Rule(
    name="delivery_repeated",
    title="packets were sent again",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
    yields_to=("delivery_lost", "delivery_at_sender", "delivery_unanswered", "recorder_twice"),
)
