"""Training had to start again.

What
----
The ranks were started again, and no other verdict explains why.

Why
---
Every restart repeats the steps since the last checkpoint and costs the time of a start.

Fix
---
The run's events have the reason and the cost: `railbed report RUN`. The log of the node named here may have more:
`railbed runs` shows where it is.

Source
------
railbed's own records of restarts (docs/training.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.evidence import Evidence
from railbed.diagnose.rule import Judgement, Rule, fail
from railbed.diagnose.signal import Span

RETURNED = "returned"


def judge(evidence: Evidence) -> Iterator[Judgement]:
    """Report each restart."""
    for mark in evidence.marks("restart"):
        if mark.text.endswith(RETURNED):
            continue  # on purpose, to use a node again
        subject = mark.subject if mark.subject.partition("/")[0] in evidence.cluster.nodes else "cluster"
        span = Span(mark.time, mark.time)
        yield fail(mark.text, span, certainty="certain", subject=subject, expected="one start")


RULE = Rule(
    name="training_restart",
    title="training had to start again",
    scope="cluster",
    needs=(),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("node_frozen", "node_cut", "link_flap", "path_peer_dead", "path_mtu", "path_gid"),
)
