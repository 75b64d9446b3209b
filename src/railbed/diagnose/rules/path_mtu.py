"""Frames are longer than the MTU of a port.

What
----
A port of a node or of a switch counts frames that are longer than it accepts.

Why
---
Small messages work and large ones never arrive: training starts, and hangs at the first gradient.

Fix
---
Set the same MTU on all nodes of the rail, and a larger one on the switch: `railbed check mtu mtu_path switch_mtu
cable_mtu`, then `railbed configure`.

Source
------
Linux kernel documentation, mlx5 counters (`rx_oversize_pkts_phy`); Cisco NX-OS, show interface (giants).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import growths, measured_signals
from railbed.rules.judgement import Judgement, fail
from railbed.rules.rule import Rule
from railbed.rules.site import PortView


def judge(port: PortView) -> Iterator[Judgement]:
    """Read the counters at both ends of a port's cable."""
    own = port.try_signal("phy_oversize_packets")
    switch = port.switch_port
    giants = switch.try_signal("switch_giants") if switch else None
    for span, grown in growths(measured_signals(port, ("phy_oversize_packets", "switch_giants"), own, giants)):
        at_switch = bool(switch) and grown[0] is giants
        who = f"{switch.subject} refused" if switch and at_switch else "the card refused"
        frames = sum(signal.total(span) for signal in grown)
        yield fail(
            f"{who} {frames:,.0f} frames that are longer than its MTU",
            *grown,
            span=span,
            certainty="certain",
            expected=f"an MTU of {port.mtu} on the rail",
        )


RULE = Rule(
    name="path_mtu",
    title="frames longer than the MTU",
    scope="port",
    needs=("phy_oversize_packets", "switch_giants"),
    judge=judge,
    doc=__doc__,
)
