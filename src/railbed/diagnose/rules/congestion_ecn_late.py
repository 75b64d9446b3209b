"""ECN comes too late: the switch pauses before it marks.

What
----
A switch sent PFC frames to its nodes for several seconds, and its lossless queues marked no packet.

Why
---
ECN slows down the senders that cause congestion; PFC stops everybody on the link. If queues pause before they reach the
marking threshold, DCQCN never acts and every burst ends in pauses.

Fix
---
Lower the threshold from which the queue marks, or turn ECN on: `railbed check switch_ecn` compares it with the speed,
`railbed configure` shows the change. A single stream below the threshold is normal.

Source
------
Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015: ECN must mark before PFC pauses.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import NotJudged, Rule, Unsampled
from railbed.rules.signal import join_spans, sum_growth
from railbed.rules.site import SwitchView

PAUSES = 10.0
"""Frames per second."""
LEAST_SECONDS = 10.0
"""Two samples of a switch, which is read every five seconds."""
LEAST_SHARE = 0.01
"""Marks per pause frame: a queue that marks first marks many packets before it has to pause."""


def judge(switch: SwitchView) -> Iterator[Judgement]:
    """Compare the pauses that the switch sent with the packets that it marked."""
    if not switch.policy.ecn:
        raise NotJudged("the policy of the cluster file has no ECN")
    pauses = [signal for port in switch.ports if (signal := port.try_signal("switch_pause_tx_frames"))]
    marks = [
        signal for port in switch.ports if (signal := port.try_signal("queue_ecn_marked_packets", switch.lossless))
    ]
    if not pauses or not marks:
        raise Unsampled("switch_pause_tx_frames" if not pauses else "queue_ecn_marked_packets", switch.name)
    for span in join_spans(span for signal in pauses for span in signal.above(PAUSES, least=LEAST_SECONDS)):
        frames, marked = sum_growth(pauses, span), sum(grew(signal, span) for signal in marks)
        if marked >= LEAST_SHARE * frames or _receiver_paused(switch, span):
            continue
        most = max(pauses, key=lambda signal: signal.total(span))
        yield warn(
            f"the switch sent {frames:,.0f} PFC frames and marked {marked:,.0f} packets",
            most,
            marks[0],
            span=span,
            expected="packets are marked before senders are paused",
        )


def _receiver_paused(switch: SwitchView, span: Span) -> bool:
    """Whether a node had stopped the switch: then the queue grows behind it, whatever the thresholds."""
    return any(grew(port.try_signal("switch_pause_rx_frames"), span) > 0 for port in switch.ports)


RULE = Rule(
    name="congestion_ecn_late",
    title="pauses before marks",
    scope="switch",
    needs=("switch_pause_tx_frames", "queue_ecn_marked_packets"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("pause_slow_receiver", "pause_pcie", "pause_storm"),
)
