"""The switch pauses itself.

What
----
Internal ports of the switch (`ii1/1/1`, between the parts of a modular switch, or the two chips of a fixed one such as
the 9332PQ) count PFC frames, the ports to the nodes none, and the switch drops packets on arrival meanwhile. Without
drops, these frames are how such a switch keeps its no-drop class from overflowing inside.

Why
---
Between the parts of the switch is less bandwidth than the ports need, and the buffers in front of it are full. Nodes
see neither pauses nor marks, and lose packets for no visible reason.

Fix
---
Spread the nodes' ports over the switch's internal units (`show interface hardware-mappings`), and compare the queuing
policy of the internal ports with that of the front ports.

Source
------
Cisco NX-OS, show interface priority-flow-control, on switches with internal ports.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import NotJudged, Rule, Unsampled
from railbed.rules.site import SwitchView

INTERNAL = "ii"
LEAST_FRAMES = 100
"""Fewer cost no bandwidth."""
LEAST_DROPS = 10
"""On arrival, at any port: fewer may be a single burst."""


def judge(switch: SwitchView) -> Iterator[Judgement]:
    """Compare internal ports with front ports."""
    frames = switch.on_ports("switch_pause_rx_frames")
    internal = {name: signal for name, signal in frames.items() if name.lower().startswith(INTERNAL)}
    if not internal:
        raise NotJudged(f"{switch.name} has no internal ports that count pauses")
    drops = switch.on_ports("ingress_drop_packets")
    if not drops:
        raise Unsampled("ingress_drop_packets", switch.name)
    front = [signal for name, signal in frames.items() if name not in internal]
    for name, signal in internal.items():
        for span in signal.above(0.0, bridge=30.0):
            dropped = sum(grew(port, span) for port in drops.values())
            is_inside = signal.total(span) >= LEAST_FRAMES and not any(grew(port, span) for port in front)
            if is_inside and dropped >= LEAST_DROPS:
                yield warn(
                    f"{signal.total(span):,.0f} PFC frames inside the switch, none from the nodes, and "
                    f"{dropped:,.0f} packets dropped on arrival",
                    signal,
                    span=span,
                    subject=f"{switch.name}/{name}",
                    expected="internal pauses lose no packets",
                )


RULE = Rule(
    name="pause_internal",
    title="the switch pauses itself",
    scope="switch",
    needs=("switch_pause_rx_frames", "ingress_drop_packets"),
    judge=judge,
    doc=__doc__,
)
