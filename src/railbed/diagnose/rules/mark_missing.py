"""RDMA is sent without its mark, outside the lossless queue.

What
----
A port moves RDMA, and priority 0 carries it while the lossless priority is idle; the switch's lossless queue is idle,
too, or was not measured.

Why
---
Packets without their DSCP ride in the default queue: no PFC, no ECN, dropped when it is full. Everything looks
configured, and under load connections repeat packets or break. NCCL's default traffic class is 0.

Fix
---
Set the traffic class of the job (`NCCL_IB_TC`, UCX_IB_TRAFFIC_CLASS; `railbed train --show-env` has them) and the
default for others (`railbed check roce_tos`). `railbed check --prove path` follows a marked stream hop by hop.

Source
------
NVIDIA NCCL, NCCL_IB_TC (default 0); nccl issues 2383 and 378; ucx issue 10325.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import find_unprotected
from railbed.model.text import size
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare RDMA with the priorities that carried it, at the card and at the switch."""
    for case in find_unprotected(port):
        if case.lossless_queue is not None and case.lossless_queue >= case.total / 2:
            continue  # marked after all: mark_trust
        switch = "" if case.lossless_queue is None else "; so is the switch's lossless queue"
        yield fail(
            f"{size(case.total)} of RDMA went out in priority 0, priority {port.lossless} is idle{switch}",
            case.rdma,
            case.default,
            case.lossless,
            span=case.span,
            certainty="likely" if case.lossless_queue is None else "certain",
            expected=f"RDMA in priority {port.lossless} (DSCP {port.policy.dscp})",
        )


RULE = Rule(
    name="mark_missing",
    title="RDMA without its mark",
    scope="port",
    needs=("rdma_tx_bytes", "priority_tx_bytes"),
    judge=judge,
    doc=__doc__,
    yields_to=("mark_trust",),
)
