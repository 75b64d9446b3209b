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

from railbed.diagnose.shared.compare import grew, growths
from railbed.rules.judgement import Judgement, Span, fail, warn
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal
from railbed.rules.site import SwitchPortView

ALL = ""
"""Most switches count the drops of all queues of a port together."""
QUEUES = [str(number) for number in range(8)]


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Judge every queue of a switch port, or all of them together."""
    drops = {queue: signal for queue in (ALL, *QUEUES) if (signal := port.try_signal("queue_wred_drop_packets", queue))}
    if not drops:
        raise Unsampled("queue_wred_drop_packets", port.subject)
    for queue, signal in drops.items():
        marks = _marks(port, queue)
        for span, _ in growths([signal]):
            marked = sum(grew(mark, span) for mark in marks)
            lossless = queue == port.lossless or (queue == ALL and _lossless_drops(port, span))
            if not lossless and (marked or not marks):
                continue
            beside = f", and marked {f'{marked:,.0f}' if marked else 'none'}" if marks else ""
            yield (fail if lossless else warn)(
                f"{_name(queue)} dropped {signal.total(span):,.0f} packets by WRED{beside}",
                signal,
                *marks[:1],
                span=span,
                certainty="certain" if marks and queue else "likely",
                expected="WRED marks and does not drop",
            )


def _name(queue: str) -> str:
    return f"queue {queue}" if queue else "the port"


def _marks(port: SwitchPortView, queue: str) -> list[Signal]:
    queues = QUEUES if queue == ALL else [queue]
    return [signal for name in queues if (signal := port.try_signal("queue_ecn_marked_packets", name))]


def _lossless_drops(port: SwitchPortView, span: Span) -> bool:
    return grew(port.try_signal("queue_drop_packets", port.lossless), span) > 0


RULE = Rule(
    name="congestion_wred",
    title="WRED drops instead of marking",
    scope="switch port",
    needs=("queue_wred_drop_packets",),
    judge=judge,
    doc=__doc__,
)
