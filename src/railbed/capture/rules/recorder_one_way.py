"""Only one direction was recorded.

What
----
A recording has packets of connections in one direction, and nothing in the other.

Why
---
Reliable connections always have both: data and acknowledgements. Without one of them, round trips, refusals and
notifications cannot be judged, and losses only half.

Fix
---
Record both directions: a mirror session with `both`, a recorder without a direction filter; some card sniffers see
incoming packets only after a firmware update. Then read the file again: `railbed capture --from FILE`.

Source
------
Cisco NX-OS, monitor session … source interface … both; tcpdump(8), -Q.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.capture.proof import proof_of
from railbed.capture.subjects import RecordingView
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule

LEAST_PACKETS = 20


def judge(view: RecordingView) -> Iterator[Judgement]:
    """Compare the pairs of addresses with those of the other direction."""
    connected = [flow for flow in view.flows if len(flow.view.requests.rows) or len(flow.view.answers)]
    if not connected:
        raise NotJudged(f"{view.recording.name} has no packets of connections")
    pairs = {(flow.view.key.source, flow.view.key.destination) for flow in view.flows}
    alone = [
        flow
        for flow in connected
        if (flow.view.key.destination, flow.view.key.source) not in pairs and len(flow.view.rows) >= LEAST_PACKETS
    ]
    if alone:
        where = sorted({f"{flow.view.key.source} → {flow.view.key.destination}" for flow in alone})
        yield warn(
            f"only one direction was recorded: {', '.join(where[:3])}{', …' if len(where) > 3 else ''}",
            *(proof_of(flow, flow.view.rows) for flow in alone[:2]),
            certainty="certain",
            expected="both directions",
        )


RULE = Rule(
    name="recorder_one_way",
    title="only one direction was recorded",
    scope="recording",
    judge=judge,
    doc=__doc__,
    yields_to=("delivery_unanswered",),
)
