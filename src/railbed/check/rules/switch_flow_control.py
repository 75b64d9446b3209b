"""Link-level flow control is off on every switch port with a node: it would take the place of PFC.

What
----
`show interface flowcontrol` shows send and receive off for each port of the cluster file.

Why
---
A port has either PFC or link-level flow control (802.3x): if both are configured, a Nexus selects the latter. Then a
pause stops all traffic of the port, congestion notifications included, and the no-drop class has no PFC, although its
mode is On.

Fix
---
`flowcontrol receive off` and `flowcontrol send off` in `interface Ethernet1/1`, or in its port-channel. The link of the
port goes down and comes up again.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring Link Level Flow Control"; for a Nexus
5000 its own guide, "Information About Flow Control".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus_qos import no_port, place_of
from railbed.check.shared.port import no_pfc
from railbed.parsing.nexus.answer import find_port
from railbed.probes.nexus import flow_control, interface, pfc, port_channel
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView

EXPECTED = "no flow control beside PFC"


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Look at both directions."""
    control = find_port(port.read(flow_control.PROBE).ports, port.port.name)
    if control is None:
        yield no_port(port)
        return
    directions = [name for name, enabled in (("receive", control.receive), ("send", control.send)) if enabled]
    if not directions:
        yield ok(expected=EXPECTED, observed="flow control off")
        return
    lines = (f"interface {place_of(port)}", *(f"  flowcontrol {direction} off" for direction in directions))
    observed = f"flow control on ({' and '.join(directions)}){_beside_pfc(port)}"
    yield fail(expected=EXPECTED, observed=observed, fix=nexus.enter(port.switch, None, lines))


def _beside_pfc(port: SwitchPortView) -> str:
    """Return what the port loses by it."""
    states = port.switch.try_read(pfc.PROBE)
    state = find_port(states.ports, port.port.name) if states else None
    return ", which wins over PFC" if state and state.mode == "on" else ""


RULE = Rule(
    name="switch_flow_control",
    title="no link-level flow control beside PFC",
    scope="switch port",
    needs=(flow_control.PROBE, pfc.PROBE, interface.PROBE, port_channel.PROBE),
    judge=judge,
    unless=no_pfc,
    doc=__doc__,
)
