"""Frames arrive that another hop already knew to be damaged.

What
----
A switch port counts stomped frames: their checksum was wrong when they arrived upstream, and a cut-through switch
passed them on with a mark.

Why
---
The cable of the port that counts them is fine; replacing it changes nothing. The damage happened where checksum errors
are counted.

Fix
---
Follow the frames upstream to the port that counts checksum errors, and replace the cable there. `railbed check
switch_counters` lists the errors of all ports.

Source
------
Cisco NX-OS, show interface counters detailed (Stomped-CRC): cut-through switches invert the checksum of damaged frames.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.diagnose.shared.compare import grew, growths
from railbed.rules.judgement import Judgement, warn
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Find stomped frames, and the port at which they were damaged."""
    stomped = port.signal("switch_stomped_packets")
    for span, _ in growths([stomped]):
        sources = {
            f"{signal.series.device}/{signal.series.port}": grew(signal, span)
            for meter in ("switch_crc_errors", "phy_crc_errors")
            for signal in port.site.run.signals_of(meter)
        }
        origin = max(sources, key=lambda name: sources[name]) if any(sources.values()) else ""
        yield warn(
            f"{stomped.total(span):,.0f} frames were damaged before they came here"
            + (f": {origin} counts checksum errors" if origin else "; no sampled port counts checksum errors"),
            stomped,
            span=span,
            certainty="certain",
            expected="no damaged frames",
        )


RULE = Rule(
    name="link_stomped",
    title="frames were damaged upstream",
    scope="switch port",
    needs=("switch_stomped_packets",),
    judge=judge,
    doc=__doc__,
)
