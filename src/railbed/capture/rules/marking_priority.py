"""RDMA packets have the wrong priority in their VLAN tag.

What
----
A port sends RDMA packets with a VLAN tag whose priority (PCP) is not the lossless one.

Why
---
Devices that trust the tag and not the DSCP put these packets into another queue, and PFC does not pause it: packets
are lost although everything else is right.

Fix
---
Let devices trust the DSCP (`railbed check dscp_trust switch_dscp`), or map the priority on the VLAN interface: `ip
link set dev NAME type vlan egress-qos-map 3:3`.

Source
------
IEEE 802.1Q (PCP); ip-link(8), egress-qos-map.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.marked import enough, sent_marks
from railbed.capture.packets import NO_VLAN
from railbed.capture.proof import proof_of
from railbed.capture.subjects import SenderView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule


def judge(port: SenderView) -> Iterator[Judgement]:
    """Count the tagged packets with another priority."""
    expected = port.context.priority
    if expected is None:
        raise NotJudged("without a cluster file, no priority is expected")
    total, wrong, proofs, counts = 0, 0, [], np.zeros(8, np.int64)
    for view, rows in sent_marks(port):
        tags = view.view.column("vlan", rows)
        tagged = tags != NO_VLAN
        other = tagged & (tags >> 13 != expected)
        total, wrong = total + int(tagged.sum()), wrong + int(other.sum())
        counts += np.bincount(tags[other] >> 13, minlength=8)
        if other.any():
            proofs.append(proof_of(view, rows[other]))
    if not total:
        raise NotJudged(f"the RDMA packets of {port.subject} have no VLAN tag")
    if enough(wrong, total):
        yield fail(
            f"{wrong:,} of {total:,} tagged RDMA packets have another priority, mostly {int(counts.argmax())}",
            *proofs,
            certainty="certain",
            expected=f"priority {expected}",
        )


RULE = Rule(
    name="marking_priority",
    title="RDMA packets have the wrong priority",
    scope="port",
    judge=judge,
    doc=__doc__,
)
