"""RDMA packets are not marked.

What
----
A port sends RDMA packets with DSCP 0. Datagrams of the connection manager do not count.

Why
---
Switches put packets into queues by their DSCP. With 0 they land in the lossy queue: they are dropped when it is full,
whatever PFC and ECN are set to for the lossless one.

Fix
---
Set the traffic class of the application: `NCCL_IB_TC=106` for NCCL, `UCX_IB_TRAFFIC_CLASS=106` for UCX,
`--tclass=106` for perftest; and the default of the card: `railbed check roce_tos`, `railbed configure`.

Source
------
NCCL, NCCL_IB_TC (0 by default); Linux kernel documentation, default_roce_tos of RDMA CM.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.marked import not_expected, sent_marks
from railbed.capture.proof import proof_of
from railbed.capture.subjects import SenderView
from railbed.rules.judgement import Judgement, fail, warn
from railbed.rules.rule import NotJudged, Rule


def judge(port: SenderView) -> Iterator[Judgement]:
    """Count the packets with DSCP 0."""
    if port.context.dscp == 0:
        raise NotJudged("the cluster file expects DSCP 0")
    views = sent_marks(port)
    unmarked, total, proofs = not_expected(views, lambda tos: tos >> 2 == 0)
    if not unmarked:
        return
    judgement = warn if port.context.dscp is None else fail
    yield judgement(
        f"{unmarked:,} of {total:,} RDMA packets have DSCP 0",
        *(proof_of(view, rows) for view, rows in proofs),
        certainty="certain" if all(view.end == "sender" for view, _ in proofs) else "likely",
        expected="marked" if port.context.dscp is None else f"DSCP {port.context.dscp}",
    )


RULE = Rule(
    name="marking_missing",
    title="RDMA packets are not marked",
    scope="port",
    judge=judge,
    doc=__doc__,
    yields_anywhere=("marking_some_nodes",),
)
