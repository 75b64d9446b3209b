"""Incast: several nodes send to one, and the fabric pauses them.

What
----
The switch paused at least two nodes of a rail at the same time, and no card on the rail sent pauses itself: the
receivers kept up, one link of the switch was asked for more than it can carry.

Why
---
It is normal in short bursts, and ECN is meant to prevent more. If it lasts, senders wait for each other, and traffic to
other nodes waits behind them.

Fix
---
Check that ECN marks before PFC pauses (`railbed check switch_ecn dcqcn`), and that collectives use all rails. With
all-to-all traffic, consider a topology with fewer senders per link.

Source
------
Linux kernel documentation, mlx5 counters: received pauses mean that the network cannot take in the adapter's traffic.
Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.diagnose.shared.network import pauses
from railbed.rules.judgement import Judgement, Span, warn
from railbed.rules.rule import Rule, Unsampled
from railbed.rules.signal import Signal, join_spans
from railbed.rules.site import PortView, RailView

LEAST_SENDERS = 2


def judge(rail: RailView) -> Iterator[Judgement]:
    """Find times in which several ports were paused, and no card paused the switch."""
    received: dict[str, tuple[Signal, list[Span]]] = {}
    for port in rail.ports:
        try:
            received[port.subject] = pauses(port, "rx")
        except Unsampled:
            continue
    if len(received) < LEAST_SENDERS:
        raise Unsampled("pause_rx_frames", f"at least two ports of {rail.name}")
    for span in join_spans(span for _, spans in received.values() for span in spans):
        paused = [name for name, (_, spans) in received.items() if any(span.overlaps(other) for other in spans)]
        slow = [port for port in rail.ports if grew(port.try_signal("pause_tx_frames", port.lossless), span) > 0]
        if len(paused) < LEAST_SENDERS or slow:
            continue
        target, depth = _target(rail.ports, span)
        towards = f" on their way to {target}" if target else ""
        yield warn(
            f"the switch paused {', '.join(paused)}{towards}, while no card paused the switch",
            *(received[name][0] for name in paused[:2]),
            *([depth] if depth else []),
            span=span,
            certainty="likely" if target else "possible",
            expected="senders slow down before they are paused",
        )


def _target(ports: tuple[PortView, ...], span: Span) -> tuple[str, Signal | None]:
    """Return the switch port with the longest queue or the most marks, and that series; empty if it is not known."""
    for meter in ("queue_depth_bytes", "queue_ecn_marked_packets"):
        signals = {
            port.switch_port.subject: signal
            for port in ports
            if port.switch_port and (signal := port.switch_port.try_signal(meter, port.lossless))
        }
        peaks = {name: signal.peak(span.widen(signal.interval)) for name, signal in signals.items()}
        if peaks and max(peaks.values()) > 0:
            name = max(peaks, key=lambda name: peaks[name])
            return name, signals[name]
    return "", None


RULE = Rule(
    name="pause_incast",
    title="several nodes send to one",
    scope="rail",
    needs=("pause_rx_frames",),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("pause_storm", "pause_slow_receiver", "pause_pcie"),
)
