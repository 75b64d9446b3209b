"""RDMA packets are marked, but not as ECN-capable.

What
----
A port sends RDMA packets with a DSCP but with the ECN bits 00 (Not-ECT).

Why
---
A switch marks only packets that say they support ECN. It drops the others at the same queue length, or lets the queue
grow until PFC stops everybody: congestion control never begins.

Fix
---
The traffic class is four times the DSCP plus 2: 106 for DSCP 26, not 104. `railbed check roce_tos dcqcn`.

Source
------
RFC 3168 (ECN); Cisco, random-detect … ecn.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.marked import not_expected, sent_marks
from railbed.capture.proof import proof_of
from railbed.capture.subjects import SenderView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule


def judge(port: SenderView) -> Iterator[Judgement]:
    """Count the packets with a DSCP that are not ECN-capable."""
    if not port.context.ecn:
        reason = "without a cluster file, ECN is not expected" if port.context.ecn is None else "the policy has no ECN"
        raise NotJudged(reason)
    incapable, total, proofs = not_expected(sent_marks(port), lambda tos: (tos & 3 == 0) & (tos >> 2 != 0))
    if incapable:
        yield fail(
            f"{incapable:,} of {total:,} RDMA packets have a DSCP, but are not ECN-capable",
            *(proof_of(view, rows) for view, rows in proofs),
            certainty="certain" if all(view.end == "sender" for view, _ in proofs) else "likely",
            expected="ECT(0)",
        )


RULE = Rule(
    name="marking_ecn",
    title="RDMA packets are not ECN-capable",
    scope="port",
    judge=judge,
    doc=__doc__,
)
