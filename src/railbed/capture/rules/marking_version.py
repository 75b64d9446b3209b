"""RDMA uses RoCEv1.

What
----
A port sends RoCEv1 packets: Ethernet without IP.

Why
---
RoCEv1 has no IP header, so no DSCP and no ECN: switches cannot put it into the lossless queue by DSCP or mark it, and
it does not cross a router.

Fix
---
Choose a GID of the type RoCE v2: `railbed check gid_rocev2 gid_index_equal`; `NCCL_IB_GID_INDEX`, or `-x` for
perftest. If `gid_rocev2` warns that a card of the rail has only v1 (ConnectX-3 without Pro), no setting helps: v1 works
on one cable or subnet, without DSCP and ECN.

Source
------
InfiniBand Trade Association, annex A17 (RoCEv2); Linux sysfs ABI, gid_attrs/types.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.marked import enough
from railbed.capture.packets import Kind
from railbed.capture.proof import proof_of
from railbed.capture.subjects import SenderView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Absent, Rule


def judge(port: SenderView) -> Iterator[Judgement]:
    """Count the packets without an IP header."""
    if not port.sends:
        raise Absent(f"{port.subject} sends no RDMA data")
    total = sum(len(flow.main.view.rows) for flow in port.sends)
    old = []
    for flow in port.sends:
        rows = flow.main.view.rows[flow.main.view.column("kind") == Kind.ROCE1]
        if len(rows):
            old.append((flow.main, rows))
    count = int(np.sum([len(rows) for _, rows in old]))
    if enough(count, total):
        yield fail(
            f"{count:,} of {total:,} packets are RoCEv1",
            *(proof_of(view, rows) for view, rows in old),
            certainty="certain",
            expected="RoCEv2",
        )


RULE = Rule(
    name="marking_version",
    title="RDMA uses RoCEv1",
    scope="port",
    judge=judge,
    doc=__doc__,
)
