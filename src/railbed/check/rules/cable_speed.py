"""Both ends of a cable have the same speed.

What
----
`ethtool` on the node and `show interface` on the switch show the same speed for the two ends of each cable.

Why
---
A link has one speed, so two different ones mean that one end is not what the cluster file says, or that a breakout
port or a transceiver was set by hand. Thresholds and buffers of the switch are then computed for the wrong speed.

Fix
---
See cable_ends first. Then set both ends to negotiate, or both to the same speed (`speed 25000` on the switch,
`ethtool -s IF speed 25000` on the node).

Source
------
IEEE 802.3, auto-negotiation; ethtool(8).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nexus_qos import interface_of, no_port
from railbed.probes import ethtool
from railbed.probes.nexus import interface
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import CableView

EXPECTED = "the same speed at both ends"


def judge(cable: CableView) -> Iterator[Judgement]:
    """Compare the two speeds."""
    other = interface_of(cable.switch_port)
    if other is None:
        yield no_port(cable.switch_port)
        return
    own = cable.port.read(ethtool.PROBE).interfaces.get(cable.port.port.netdev)
    here, there = own.speed_mbps if own else None, other.speed_mbps if other.up else None
    where = cable.switch_port.subject
    if not here or here < 0 or not there:
        end = where if here and here > 0 else cable.subject
        yield unknown(expected=EXPECTED, observed=f"{end} reports no speed", remedy="see link_up and switch_link")
    elif here == there:
        yield ok(expected=EXPECTED, observed=f"{here / 1000:g} Gb/s")
    else:
        yield fail(expected=EXPECTED, observed=f"{here / 1000:g} Gb/s here, {there / 1000:g} Gb/s at {where}")


RULE = Rule(
    name="cable_speed",
    title="same speed at both ends of a cable",
    scope="cable",
    needs=(ethtool.PROBE, interface.PROBE),
    judge=judge,
    doc=__doc__,
)
