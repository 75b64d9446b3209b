"""A node ignores the switch's pauses.

What
----
The switch sends PFC frames to a port, but the card counts none of them on the lossless priority, or has no such
counter, as cards without PFC do.

Why
---
Half a lossless fabric is a lossy one: the switch relies on the card to stop, its buffer overflows, and RoCE repeats
everything since the lost packet. Under load bandwidth collapses and NCCL ends with "status 12".

Fix
---
Turn PFC on for the lossless priority on the node: `railbed check pfc` shows both ends, `railbed configure` the change.
What `mlnx_qos` sets is lost at a reboot; `configure` also makes it permanent.

Source
------
Linux kernel documentation, mlx5 counters (`rx_prioN_pause` exists only with PFC); Cisco NX-OS, show interface
priority-flow-control (TxPPP).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.rules.judgement import Judgement, Span, fail
from railbed.rules.rule import NotJudged, Rule
from railbed.rules.signal import Signal
from railbed.rules.site import PortView, SwitchPortView

LEAST_FRAMES = 10
"""Fewer may fall between the samples of the two ends."""
LEAST_SHARE = 0.01
"""Of the pauses that the switch sent: the two ends need not count alike."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Compare the pauses that the switch sent with those that the card counted."""
    switch = port.switch_port
    if switch is None:
        raise NotJudged(f"the cluster file has no switch port for {port.subject}")
    sent = switch.signal("switch_pause_tx_frames")
    received = port.try_signal("pause_rx_frames", port.lossless)
    if received is None:
        port.signal("priority_rx_bytes", port.lossless)  # a card that counts priorities would count pauses, too
    for span in sent.above(0.0, bridge=30.0):
        frames = sent.total(span)
        if frames < LEAST_FRAMES or _has_obeyed(received, span.widen(sent.interval), frames):
            continue
        count = "counts no pauses on" if received is None else "received none on"
        lost = sum(grew(signal, span) for signal in _losses(port, switch) if signal)
        cost = f"; {lost:,.0f} packets were lost or arrived out of sequence" if lost else ""
        yield fail(
            f"{switch.subject} sent {frames:,.0f} PFC frames, the card {count} priority {port.lossless}{cost}",
            sent,
            *([received] if received else []),
            span=span,
            certainty="certain" if lost else "likely",
            expected="the card obeys the pauses of the switch",
        )


def _has_obeyed(received: Signal | None, span: Span, frames: float) -> bool:
    """Whether the card counted pauses, or nothing is known of what it counted."""
    return received is not None and (not received.covers(span) or received.total(span) >= LEAST_SHARE * frames)


def _losses(port: PortView, switch: SwitchPortView) -> Iterator[Signal | None]:
    yield switch.try_signal("ingress_drop_packets")
    yield switch.try_signal("queue_drop_packets", port.lossless)
    for receiver in (port, *port.peers):
        yield receiver.try_signal("rdma_out_of_sequence")


RULE = Rule(
    name="pause_host_off",
    title="a node ignores the switch's pauses",
    scope="port",
    needs=("switch_pause_tx_frames", "pause_rx_frames"),
    judge=judge,
    doc=__doc__,
)
