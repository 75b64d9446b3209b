"""Packets arrive marked as congested, but no notification leaves.

What
----
A port receives packets that a switch marked (CE), and sends no congestion notification (CNP) to their sender.

Why
---
Without notifications the sender never learns of the congestion. The queue grows until PFC stops the link, or until
packets are dropped: ECN is set up on the switch for nothing.

Fix
---
Turn DCQCN on at the receiver (the notification point) for the lossless priority: `railbed check dcqcn`, `railbed
configure`. ConnectX-3 and Soft-RoCE do not send notifications at all.

Source
------
Zhu et al., SIGCOMM 2015 (DCQCN); NVIDIA, np_ecn_marked_roce_packets and np_cnp_sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.context import KnownPort
from railbed.capture.analysis.traffic import select_congested
from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.model.record import Certainty
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Absent, NotJudged, Rule

LEAST_CONGESTED = 50
"""Cards send at most one notification per some microseconds, but they do answer the first marked packet."""


def judge(path: PathView) -> Iterator[Judgement]:
    """Compare marked packets with notifications on the way back."""
    arriving = [flow.views[-1] for flow in path.flows if flow.views[-1].data.packets]
    if not arriving:
        raise Absent(f"no RDMA data from {path.sender} to {path.receiver} was recorded")
    marked = [(view, select_congested(view.view, view.view.rows)) for view in arriving if view.data.ce]
    count = sum(len(rows) for _, rows in marked)
    if count < LEAST_CONGESTED:
        return
    place = path.context.place(path.destination)
    if place and place.software:
        raise NotJudged(f"{place.name} is a software device, which sends no notifications")
    back = path.back
    if not any(len(view.view.rows) for view in back.views()):
        raise NotJudged(f"nothing from {path.receiver} back to {path.sender} was recorded")
    if any(len(view.view.notices) for view in back.views()):
        return
    yield fail(
        f"{count:,} packets from {path.sender} arrived marked as congested (CE), and no notification left",
        *(proof_of(view, rows, "CE") for view, rows in marked[:2]),
        certainty=_certainty(place, all(view.end == "receiver" for view, _ in marked)),
        expected="a notification (CNP) to the sender",
        subject=path.context.port(path.destination),
    )


def _certainty(place: KnownPort | None, at_receiver: bool) -> Certainty:
    """Return how certain it is: a file does not show whether a card or software received the packets."""
    if place and place.software is None:
        return "possible"
    return "certain" if at_receiver else "likely"


RULE = Rule(
    name="reaction_no_notification",
    title="CE arrives, but no notification leaves",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
)
