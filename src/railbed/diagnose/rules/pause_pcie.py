"""PCIe limits what a node can receive.

What
----
Writes of the card waited for PCIe while the card paused the switch or dropped packets.

Why
---
The link is fast, but the slot is not: fewer lanes than the card has, an older generation, or a path across two
processors. Every all-reduce runs at the speed of this slot.

Fix
---
Compare lanes and generation with what the card can do: `railbed check pcie_bandwidth`. Move the card to another slot,
set PCIe's maximum read request, or bind the ranks to the card's NUMA node.

Source
------
Linux kernel documentation, mlx5 counters (`outbound_pci_stalled_wr`, `outbound_pci_stalled_wr_events`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

LEAST_SECONDS = 3.0
"""Shorter stalls are absorbed by the card's buffer and PFC."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Find episodes in which PCIe stalled and the card had to stop the switch, or dropped packets."""
    stalls = port.signal("pcie_stalled_writes")
    paused = port.try_signal("pause_tx_frames", port.lossless)
    dropped = [port.try_signal("phy_rx_drops"), port.try_signal("priority_rx_drops", port.lossless)]
    for span in stalls.above(0.0, least=LEAST_SECONDS):
        frames, drops = grew(paused, span), sum(grew(signal, span) for signal in dropped)
        if frames or drops:
            yield fail(
                f"writes waited for PCIe {stalls.mean(span):,.0f} times per second; the card sent {frames:,.0f} pauses "
                f"and dropped {drops:,.0f} packets",
                stalls,
                *([paused] if paused else []),
                span=span,
                certainty="certain",
                expected="PCIe is faster than the link",
            )


RULE = Rule(
    name="pause_pcie",
    title="PCIe limits a receiver",
    scope="port",
    needs=("pcie_stalled_writes",),
    judge=judge,
    doc=__doc__,
)
