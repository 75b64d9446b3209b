"""Every packet was recorded twice.

What
----
Most packets of a connection appear twice in a row, with the same sequence number.

Why
---
A mirror session that copies a packet where it enters and where it leaves a switch, or a recorder on two stacked
interfaces, doubles every packet. It looks as if everything were sent again, and rates are twice too high.

Fix
---
Mirror one port, or one direction of several; record the physical interface only. Then read the file again: `railbed
capture --from FILE`.

Source
------
Cisco NX-OS, SPAN: packets that pass two source ports are copied twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.proof import proof_of
from railbed.capture.subjects import RecordingView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule

LEAST_PACKETS = 20
LEAST_SHARE = 0.4


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Count packets that directly follow one with the same number."""
    streams = [flow for flow in view.flows if len(flow.view.requests.rows) >= LEAST_PACKETS]
    if not streams:
        raise NotJudged(f"{view.recording.name} has too few requests of connections")
    copies = [(flow, flow.view.requests.rows[1:][np.diff(flow.view.requests.psn) == 0]) for flow in streams]
    count, total = sum(len(rows) for _, rows in copies), sum(len(flow.view.requests.rows) for flow in streams)
    if count >= LEAST_SHARE * total:
        yield warn(
            f"{count:,} of {total:,} packets follow one with the same number: they were recorded twice",
            *(proof_of(flow, rows, "second copy") for flow, rows in copies[:2] if len(rows)),
            expected="each packet once",
            subject="cluster",
        )


RULE = Rule(
    name="recorder_twice",
    title="packets were recorded twice",
    scope="recording",
    judge=judge,
    doc=__doc__,
)
