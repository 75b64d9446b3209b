"""A node does not answer.

What
----
A sender repeated the same packet several times, and no answer came.

Why
---
The connection ends after a few more tries ("status 12", retry exceeded), and training with it: the other node is
down, its process is gone, or nothing passes in one direction.

Fix
---
`railbed check reachable rail_route firewall mtu_path`; look at the other node's log, and whether its recording shows
these packets: if it does, its card or process does not answer; if not, they are lost on the way.

Source
------
InfiniBand architecture, 9.7.6 (retry counter); ibv_poll_cq(3), IBV_WC_RETRY_EXC_ERR.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.analysis.results import FlowView
from railbed.capture.analysis.views import Rows
from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule

LEAST_COPIES = 4
"""The packet itself, and three repeats."""


def judge(path: PathView) -> Iterator[Judgement]:
    """Look for packets that were sent again and again until the end."""
    views = [flow.main for flow in path.connections if flow.main.end != "receiver"]
    if not views:
        raise NotJudged(f"packets from {path.sender} were recorded only where they arrive")
    unanswered = [(view, rows) for view in views if len(rows := _find_unanswered(view))]
    if unanswered:
        view, rows = max(unanswered, key=lambda pair: len(pair[1]))
        yield fail(
            f"{path.receiver} does not answer: {path.sender} sent the same packet {len(rows)} times",
            proof_of(view, rows, "sent again without an answer"),
            certainty="certain" if view.end == "sender" else "likely",
            expected="an answer",
        )


def _find_unanswered(view: FlowView) -> Rows:
    """Return the copies of the packet that was sent most often without an answer to it or to a later one."""
    requests = view.view.requests
    open_from = view.answers.acknowledged_to if view.answers else 0
    pending = requests.psn >= open_from
    numbers, counts = np.unique(requests.psn[pending], return_counts=True)
    if not len(numbers) or counts.max() < LEAST_COPIES:
        return np.zeros(0, np.intp)
    rows: Rows = requests.rows[requests.psn == numbers[counts.argmax()]]
    times = view.view.times(rows)
    refusals = view.answers.time[view.answers.syndrome >> 5 > 0] if view.answers else times[:0]
    return rows if not np.any(refusals > times[0]) else np.zeros(0, np.intp)


RULE = Rule(
    name="delivery_unanswered",
    title="a node does not answer",
    scope="path",
    judge=judge,
    doc=__doc__,
    yields_to=("recorder_twice",),
)
