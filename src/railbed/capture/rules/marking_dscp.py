"""RDMA packets have another DSCP than expected.

What
----
A port sends RDMA packets with a DSCP that is neither 0 nor that of the cluster file.

Why
---
Switches and cards map one DSCP to the lossless priority. Packets with another go through a queue that nobody tuned,
and may be dropped there, or overtake the others.

Fix
---
Set the same traffic class everywhere: `railbed check roce_tos dscp_map switch_dscp`, `railbed configure`; in
applications `NCCL_IB_TC` or `UCX_IB_TRAFFIC_CLASS` (four times the DSCP, plus 2 for ECN).

Source
------
RFC 2474 (DSCP); Cisco, class-map type qos, match dscp.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.marked import most_frequent, not_expected, sent_marks
from railbed.capture.proof import proof_of
from railbed.capture.subjects import SenderView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule


def judge(port: SenderView) -> Iterator[Judgement]:
    """Count the packets whose DSCP nobody expects."""
    expected = port.context.dscp
    if expected is None:
        raise NotJudged("without a cluster file, no DSCP is expected")
    views = sent_marks(port)
    wrong, total, proofs = not_expected(views, lambda tos: (tos >> 2 != expected) & (tos >> 2 != 0))
    if wrong:
        yield fail(
            f"{wrong:,} of {total:,} RDMA packets have another DSCP, mostly {most_frequent(proofs)}",
            *(proof_of(view, rows) for view, rows in proofs),
            certainty="certain" if all(view.end == "sender" for view, _ in proofs) else "likely",
            expected=f"DSCP {expected}",
        )


RULE = Rule(
    name="marking_dscp",
    title="RDMA packets have another DSCP than expected",
    scope="port",
    judge=judge,
    doc=__doc__,
    yields_to=("marking_rewritten",),
)
