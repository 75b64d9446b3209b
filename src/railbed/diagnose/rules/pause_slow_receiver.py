"""A node cannot take in what arrives, and pauses the switch.

What
----
The card sends pauses on the lossless priority for more than 1 % of the time, and no writes waited for PCIe. The fabric
is not the bottleneck, this node is: its memory, its processor, a small receive buffer, or a wrong NUMA node.

Why
---
A slow receiver stops the switch port, the switch stops the senders, and they also stop sending to healthy nodes. The
whole ring runs at the speed of this node.

Fix
---
Compare the node with the others: `railbed check pcie_bandwidth governor buffers` and `railbed bench rdma`. Look at
the NUMA node of the card and of the ranks, and at what else runs there.

Source
------
Linux kernel documentation, mlx5 counters: transmitted pauses mean that the adapter is congested, received ones that the
network is.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.diagnose.shared.network import amount_of, pauses
from railbed.rules.judgement import Judgement, fail, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

MUCH = 0.2
"""Share of the time from which it is a failure: a fifth of the bandwidth is gone."""


def judge(port: PortView) -> Iterator[Judgement]:
    """Find episodes in which the card asked the switch to stop."""
    sent, spans = pauses(port, "tx")
    for span in spans:
        if grew(port.try_signal("pcie_stalled_writes"), span):
            continue  # that has its own rule
        drops = grew(port.try_signal("priority_rx_drops", port.lossless), span)
        cost = f", and dropped {drops:,.0f} packets" if drops else ""
        much = sent.meter.unit == "us" and sent.mean(span) >= MUCH * 1e6
        yield (fail if much or drops else warn)(
            f"the card had the switch stopped {amount_of(sent, span)}{cost}",
            sent,
            span=span,
            expected="the node takes in what arrives",
        )


RULE = Rule(
    name="pause_slow_receiver",
    title="a node receives too slowly",
    scope="port",
    needs=("pause_tx_frames",),
    judge=judge,
    doc=__doc__,
    yields_to=("pause_storm", "pause_pcie"),
)
