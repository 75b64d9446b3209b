"""The switch pauses itself.

What
----
Internal ports of a modular switch (`ii1/1/1`) count PFC frames, the ports to the nodes none.

Why
---
Between the parts of the switch is less bandwidth than the ports need. Nodes see neither pauses nor marks, and bandwidth
is low for no visible reason.

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
from railbed.rules.rule import NotJudged, Rule
from railbed.rules.site import SwitchView

INTERNAL = "ii"
LEAST_FRAMES = 100
"""Fewer cost no bandwidth."""


def judge(switch: SwitchView) -> Iterator[Judgement]:
    """Compare internal ports with front ports."""
    frames = switch.on_ports("switch_pause_rx_frames")
    internal = {name: signal for name, signal in frames.items() if name.lower().startswith(INTERNAL)}
    if not internal:
        raise NotJudged(f"{switch.name} has no internal ports that count pauses")
    front = [signal for name, signal in frames.items() if name not in internal]
    for name, signal in internal.items():
        for span in signal.above(0.0, bridge=30.0):
            if signal.total(span) >= LEAST_FRAMES and not any(grew(port, span) for port in front):
                yield warn(
                    f"{signal.total(span):,.0f} PFC frames inside the switch, none from the nodes",
                    signal,
                    span=span,
                    subject=f"{switch.name}/{name}",
                    expected="internal ports need no pauses",
                )


RULE = Rule(
    name="pause_internal",
    title="the switch pauses itself",
    scope="switch",
    needs=("switch_pause_rx_frames",),
    judge=judge,
    doc=__doc__,
)
