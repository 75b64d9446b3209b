"""WRED drops packets that it should mark.

What
----
A queue of a switch dropped packets by WRED. On the lossless queue that is always wrong; elsewhere it is if the queue
marks nothing.

Why
---
WRED without `ecn` drops early instead of marking: RoCE repeats everything since the lost packet, and DCQCN receives no
signal to slow down. Packets that are not ECN-capable are dropped even if `ecn` is set.

Fix
---
Add `ecn` to the queue's random-detect (`railbed check switch_ecn`, `railbed configure`). If marks are counted beside
the drops, some senders do not set ECT: `railbed check roce_tos`.

Source
------
Cisco NX-OS QoS configuration guide, random-detect … ecn; RFC 3168.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.evidence import NotMeasured, SwitchPortView
from railbed.diagnose.rule import Judgement, Rule, fail, warn
from railbed.diagnose.shared.growth import grew, growths

QUEUES = [str(number) for number in range(8)]


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Judge every queue of a switch port."""
    drops = {queue: signal for queue in QUEUES if (signal := port.try_read("queue_wred_drop_packets", queue))}
    if not drops:
        raise NotMeasured("queue_wred_drop_packets", port.subject)
    for queue, signal in drops.items():
        marks = port.try_read("queue_ecn_marked_packets", queue)
        for span, _ in growths([signal]):
            marked = grew(marks, span)
            if queue != port.lossless and (marked or marks is None):
                continue
            beside = f", and marked {marked:,.0f}" if marked else ", and marked none" if marks else ""
            yield (fail if queue == port.lossless else warn)(
                f"queue {queue} dropped {signal.total(span):,.0f} packets by WRED{beside}",
                span,
                signal,
                *([marks] if marks else []),
                certainty="certain" if marks else "likely",
                expected="WRED marks and does not drop",
            )


RULE = Rule(
    name="congestion_wred",
    title="WRED drops instead of marking",
    scope="switch port",
    needs=("queue_wred_drop_packets",),
    judge=judge,
    doc=__doc__,
)
