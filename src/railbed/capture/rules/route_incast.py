"""Several senders load one receiver above the speed of its link.

What
----
In the same millisecond, at least two nodes sent more to a receiver than its link carries. Times are compared by the
aligned clocks of the senders' recordings.

Why
---
The rest waits in the queue of the receiver's switch port: it is marked, paused or dropped. All-to-all traffic and
badly ordered collectives do this; a ring or a tree does not.

Fix
---
Use an algorithm with fewer senders at a time (`NCCL_ALGO=Ring`), check that DCQCN slows senders down (`railbed check
dcqcn switch_ecn`), or give the receiver a faster link.

Source
------
Zhu et al., SIGCOMM 2015 (incast in RDMA networks).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.proof import proof_of
from railbed.capture.subjects import ClusterView
from railbed.model.text import duration
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule

LEAST_MOMENTS = 2


def judge(cluster: ClusterView) -> Iterator[Judgement]:
    """Look at each receiver with several senders at once."""
    analysis, context = cluster.analysis, cluster.context
    if not analysis.carrying():
        raise NotJudged("no RDMA data was recorded")
    unknown = [incast.receiver for incast in analysis.incasts if incast.overloaded is None]
    for incast in analysis.incasts:
        if incast.overloaded is None or incast.overloaded < LEAST_MOMENTS or incast.share is None:
            continue
        flows = [flow for flow in analysis.flows if flow.key.destination == incast.receiver]
        yield warn(
            f"{len(incast.senders)} nodes ({', '.join(map(context.node, incast.senders))}) sent up to "
            f"{incast.share:.0%} of its link's speed at once, in {incast.overloaded:,} moments of "
            f"{duration(incast.width / 1e9)}",
            *(proof_of(flow.main, flow.main.view.rows[:1], "first of the flow") for flow in flows[:3]),
            expected="less than the link carries",
            subject=context.port(incast.receiver),
        )
    if unknown and len(unknown) == len(analysis.incasts):
        raise NotJudged(f"the link speed of {context.port(unknown[0])} is not in the cluster file")


RULE = Rule(
    name="route_incast",
    title="several senders overload a receiver",
    scope="cluster",
    judge=judge,
    doc=__doc__,
)
