"""Packets arrive out of order.

What
----
Packets of a connection arrive in another order than they were sent, without having been lost.

Why
---
Most RDMA cards take a packet that is out of order for a loss, discard what follows and ask for it again. One path of
a flow must keep the order: a switch sprays packets, a bond distributes a flow over its links, or a route changes.

Fix
---
Let switches and bonds hash by flow (addresses, UDP ports, queue pair), not by packet: `railbed check bond`, and the
load-balancing of the switches.

Source
------
InfiniBand architecture, 9.7 (reliable connections keep the order); Cisco NX-OS, ip load-sharing and dynamic load
balancing.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule

LEAST_PACKETS = 10
LEAST_SHARE = 0.001


def judge(path: PathView) -> Iterator[Judgement]:
    """Count late packets where they arrive."""
    views = [flow.views[-1] for flow in path.connections]
    if all(view.end == "sender" for view in views):
        raise NotJudged(f"packets from {path.sender} were recorded only where they were sent")
    late = [view for view in views if view.sequence.reordered]
    count, total = sum(view.sequence.reordered for view in late), sum(len(view.view.requests.rows) for view in views)
    if count >= LEAST_PACKETS and count >= LEAST_SHARE * total:
        yield warn(
            f"{count:,} of {total:,} packets arrived out of order {path.between}",
            *(proof_of(view, view.sequence.reordered_rows, "late") for view in late[:2]),
            expected="packets of a connection keep their order",
        )


RULE = Rule(
    name="delivery_reordered",
    title="packets arrive out of order",
    scope="path",
    judge=judge,
    doc=__doc__,
)
