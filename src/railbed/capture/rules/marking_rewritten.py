"""A switch changes the DSCP of RDMA packets.

What
----
Packets leave a node with one DSCP and arrive at another with a different one. Needs recordings of both ends.

Why
---
The host is right, and yet the packets leave the lossless queue half-way: a switch trusts something else than the
DSCP, or a policy sets it anew. Settings of the host cannot repair it.

Fix
---
Look at the policies of the switch ports on the way: `railbed check switch_dscp switch_network_qos`; remove lines that
set the DSCP or the QoS group and do not belong there.

Source
------
Cisco NX-OS QoS configuration guide, marking.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.marked import enough
from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule


def judge(path: PathView) -> Iterator[Judgement]:
    """Compare the DSCP of the same packets at both ends."""
    legs = [leg for flow in path.flows for leg in flow.legs]
    if not legs:
        raise NotJudged(f"{path.subject} was recorded at one end only")
    changed = [leg for leg in legs if len(leg.journey.marks.changed)]
    count, total = sum(len(leg.journey.marks.changed) for leg in changed), sum(leg.journey.arrived for leg in legs)
    if not enough(count, total):
        return
    changes: dict[str, int] = {}
    for leg in changed:
        for change, packets in leg.journey.marks.dscp.items():
            changes[change] = changes.get(change, 0) + packets
    most = max(changes, key=lambda change: changes[change])
    yield fail(
        f"the DSCP of {count:,} of {total:,} packets changed {path.between}: {most}",
        *(proof_of(leg.arrived, leg.journey.marks.changed) for leg in changed[:2]),
        certainty="certain",
        expected="the DSCP stays as it was sent",
    )


RULE = Rule(
    name="marking_rewritten",
    title="the network changes the DSCP",
    scope="path",
    judge=judge,
    doc=__doc__,
)
