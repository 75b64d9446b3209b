"""RDMA packets are marked on some nodes only.

What
----
Some nodes send their RDMA packets with the expected DSCP, others without.

Why
---
An all-reduce is as fast as its slowest node. Nodes that do not mark lose packets in the lossy queue, and every other
node waits for them; since most packets look right, the fault is easily missed.

Fix
---
Compare the nodes: `railbed check roce_tos nodes_alike`; apply the missing settings with `railbed configure`, and
start the application with the same environment on all nodes.

Source
------
NCCL issue 2383: some connections in the lossy priority, retry errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.analysis.results import FlowView
from railbed.capture.analysis.views import Rows
from railbed.capture.marked import MOST_SHARE, sent_marks
from railbed.capture.proof import proof_of
from railbed.capture.subjects import ClusterView, SenderView, ports_of
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule


def judge(cluster: ClusterView) -> Iterator[Judgement]:
    """Compare the nodes that send."""
    expected = cluster.context.dscp
    nodes: dict[str, list[bool]] = {}
    unmarked: list[tuple[FlowView, Rows]] = []
    for port in ports_of(cluster.analysis):
        wrong = _find_unmarked(port, expected)
        if wrong is not None:
            nodes.setdefault(cluster.context.node(port.address), []).append(not wrong)
            unmarked += wrong[:1]
    if len(nodes) < 2:
        raise NotJudged("packets of fewer than two nodes were recorded")
    without = [node for node, marked in nodes.items() if not all(marked)]
    if 0 < len(without) < len(nodes):
        yield fail(
            f"marked on {len(nodes) - len(without)} of {len(nodes)} nodes; not on {', '.join(without)}",
            *(proof_of(view, rows) for view, rows in unmarked),
            certainty="certain",
            expected="marked on every node" if expected is None else f"DSCP {expected} on every node",
        )


def _find_unmarked(port: SenderView, expected: int | None) -> list[tuple[FlowView, Rows]] | None:
    """Return the packets that are not marked, if they are more than a few; None if the port sends no requests."""
    try:
        views = sent_marks(port)
    except NotJudged:
        return None
    total, wrong = 0, []
    for view, rows in views:
        dscp = view.view.column("tos", rows) >> 2
        unmarked = dscp == 0 if expected is None else dscp != expected
        total += len(rows)
        if unmarked.any():
            wrong.append((view, rows[unmarked]))
    return wrong if sum(len(rows) for _, rows in wrong) > MOST_SHARE * total else []


RULE = Rule(
    name="marking_some_nodes",
    title="RDMA packets are marked on some nodes only",
    scope="cluster",
    judge=judge,
    doc=__doc__,
)
