"""Packets are lost in the sender, before they leave.

What
----
The recorder at the sending port never saw packets that the receiver asked for: they were lost between the application
and the port, not in the network.

Why
---
A queue of the node itself drops packets: a traffic shaper (`tc`), a full queue of a software device, or a card that
discards. Every lost packet makes the sender repeat, as if a switch had dropped it, but no switch counts it.

Fix
---
Look at the queues of that node: `tc -s qdisc show`, `ethtool -S NAME`; `railbed check net_errors rdma_errors` shows
what it discarded.

Source
------
packet(7) and tc(8): packets are recorded behind the queue; InfiniBand architecture, 9.7.5 (NAK).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule

LEAST_LOST = 3


def judge(path: PathView) -> Iterator[Judgement]:
    """Count the numbers that are missing where they were sent, and that the receiver asked for."""
    views = [flow.main for flow in path.connections if flow.main.end == "sender"]
    if not views:
        raise NotJudged(f"packets from {path.sender} were not recorded where they were sent")
    lost = [view for view in views if view.sequence.lost]
    count = sum(view.sequence.lost for view in lost)
    if count >= LEAST_LOST:
        rail = path.context.rail(path.source)
        yield fail(
            f"{count:,} packets to {path.receiver} were lost in {path.sender}, before they left"
            + (f" on {rail}" if rail else ""),
            *(proof_of(view, view.sequence.lost_rows, "the first after a lost packet") for view in lost[:3]),
            certainty="certain" if all(view.recording.dropped == 0 for view in lost) else "likely",
            expected="every packet leaves",
            subject=path.context.port(path.source),
        )


RULE = Rule(
    name="delivery_at_sender",
    title="packets are lost in the sender",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
)
