"""Congestion notifications are not marked, or have a low priority.

What
----
A port sends congestion notifications (CNP) with DSCP 0, or with another one than the cluster file gives them.

Why
---
A notification must overtake the congestion that it reports. In the queue of the data, or in the lossy one, it arrives
late or never, and senders slow down too late.

Fix
---
`railbed check cnp_dscp switch_cnp`; `railbed configure` sets the DSCP of notifications on cards that allow it, and
gives them a queue of their own on switches.

Source
------
Linux kernel, mlx5 congestion control parameters (np_cnp_dscp); Zhu et al., SIGCOMM 2015 (DCQCN).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.packets import NO_VLAN
from railbed.capture.proof import proof_of
from railbed.capture.subjects import SenderView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Absent, Rule

LEAST_NOTICES = 3


def judge(port: SenderView) -> Iterator[Judgement]:
    """Count the notifications with another DSCP or priority."""
    expected, priority = port.context.cnp_dscp, port.context.cnp_priority
    wrong, total, proofs, marks = 0, 0, [], np.zeros(64, np.int64)
    for view in (flow.main for flow in port.sends if len(flow.main.view.notices)):
        rows = view.view.notices
        dscp, tags = view.view.column("tos", rows) >> 2, view.view.column("vlan", rows)
        low = dscp == 0 if expected is None else dscp != expected
        if priority is not None:
            low |= (tags != NO_VLAN) & (tags >> 13 != priority)
        total, wrong = total + len(rows), wrong + int(low.sum())
        marks += np.bincount(dscp[low], minlength=64)
        if low.any():
            proofs.append(proof_of(view, rows[low]))
    if not total:
        raise Absent(f"{port.subject} sends no notifications")
    if wrong >= LEAST_NOTICES:
        yield warn(
            f"{wrong:,} of {total:,} notifications have the wrong mark, mostly DSCP {int(marks.argmax())}",
            *proofs,
            certainty="certain",
            expected="marked" if expected is None else f"DSCP {expected}",
        )


RULE = Rule(
    name="marking_notifications",
    title="notifications are not marked",
    scope="port",
    judge=judge,
    doc=__doc__,
)
