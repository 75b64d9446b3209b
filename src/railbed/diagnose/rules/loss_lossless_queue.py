"""Packets were dropped on the lossless queue.

What
----
The lossless queue of a switch port, its ingress buffer, or the lossless priority of a card dropped packets.

Why
---
This queue must never drop: RoCE assumes that it does not. PFC is off at one end, its headroom is too small for the
cable, or more than one priority is lossless.

Fix
---
Compare both ends of the cable: `railbed check cable_pfc pfc switch_pfc switch_network_qos buffers`, then `railbed
configure`.

Source
------
Cisco NX-OS, show queuing interface (Ingress MMU Drop Pkts, Dropped Pkts); Linux kernel documentation, mlx5 counters
(`rx_prioN_discards`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from railbed.diagnose.shared.compare import describe_growth, growths, measured_signals
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.signal import Signal
from railbed.rules.site import PortView

INGRESS = "ingress_drop_packets"


def judge(port: PortView) -> Iterator[Judgement]:
    """Read the drops at both ends of a port's cable."""
    switch = port.switch_port
    at_switch = [
        switch.try_signal("queue_drop_packets", port.lossless) if switch else None,
        switch.try_signal(INGRESS) if switch else None,
    ]
    at_node = port.try_signal("priority_rx_drops", port.lossless)
    signals = measured_signals(port, ("queue_drop_packets", "priority_rx_drops"), *at_switch, at_node)
    for span, grown in growths(signals):
        place = switch.subject if switch and grown[0] is not at_node else port.subject
        yield fail(
            f"{describe_growth(grown, span)} on the lossless queue, {_way(port, grown)}",
            *grown,
            span=span,
            certainty="certain",
            subject=place,
            expected="the lossless queue drops nothing",
        )


def _way(port: PortView, grown: Sequence[Signal]) -> str:
    """Return the direction: the ingress buffer of a switch drops what the node sends, all others what it gets."""
    ways = {"from" if signal.meter.name == INGRESS else "on the way to" for signal in grown}
    return f"{' and '.join(sorted(ways))} {port.subject}"


RULE = Rule(
    name="loss_lossless_queue",
    title="the lossless queue dropped packets",
    scope="port",
    needs=("queue_drop_packets", "priority_rx_drops"),
    judge=judge,
    doc=__doc__,
    yields_anywhere=("pause_host_off", "pause_off"),
    yields_to=("pause_pcie", "pause_slow_receiver", "congestion_wred"),
)
