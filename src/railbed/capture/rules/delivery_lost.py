"""Packets are lost between two nodes, not at the ends.

What
----
Packets left one node and did not arrive at another, and were asked for or sent again. Needs recordings of both ends.
Packets that only a recorder missed do not count: they were acknowledged.

Why
---
A lossless fabric loses nothing. Each lost packet makes the card repeat everything sent since (go-back-N), and all
nodes wait for it. Both recorders prove that neither host is to blame: look at cables and switches between them.

Fix
---
Read the counters of the switch ports on this rail (`railbed check switch_counters net_errors switch_pfc`), and
compare PFC at both ends of the cables (`railbed check cable_pfc pfc`).

Source
------
InfiniBand architecture, 9.7 (packet sequence numbers); Guo et al., SIGCOMM 2016 (go-back-N).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railbed.capture.proof import proof_of
from railbed.capture.subjects import PathView
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import NotJudged, Rule

LEAST_LOST = 3
"""Fewer may be bit errors, which good cables have, too."""


def judge(path: PathView) -> Iterator[Judgement]:
    """Add up what was sent and did not arrive."""
    legs = [leg for flow in path.flows for leg in flow.legs]
    if not legs:
        raise NotJudged(f"{path.subject} was recorded at one end only")
    lost = [leg for leg in legs if len(leg.journey.lost)]
    count, sent = sum(len(leg.journey.lost) for leg in lost), sum(leg.journey.sent for leg in legs)
    if count < LEAST_LOST:
        return
    complete = all(leg.arrived.recording.dropped == 0 for leg in lost)
    # Nothing confirms the loss of an answer: it is not sent again, and a later one replaces it.
    confirmed = any(np.isin(leg.journey.lost, leg.sent.view.requests.rows).any() for leg in lost)
    yield fail(
        f"{count:,} of {sent:,} packets were lost {path.between}, not at the ends",
        *(proof_of(leg.sent, leg.journey.lost, "sent, but did not arrive") for leg in lost[:3]),
        certainty="certain" if complete and confirmed else "likely",
        expected="every packet arrives",
    )


RULE = Rule(
    name="delivery_lost",
    title="packets are lost between two nodes",
    scope="path",
    judge=judge,
    doc=__doc__,
    needs_all=True,
    yields_to=("delivery_unanswered",),
)
