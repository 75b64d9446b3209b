"""PFC is configured and operational on every switch port with a node, for the policy's priority and no other.

What
----
`show interface priority-flow-control` shows mode On, and operation On with exactly the policy's priority in the
bitmap.

Why
---
With the default mode, auto, PFC depends on DCBX with the card, which most RoCE hosts do not use: PFC stays off, and
the switch drops packets when its buffers are full. RoCE then resends everything after that packet, and an all-reduce
takes many times as long. PFC on other priorities lets traffic that may be dropped stop the port.

Fix
---
`interface Ethernet1/1` and `priority-flow-control mode on`; the port stays up. A member of a port-channel is configured
at the port-channel. The priorities come from the network-qos policy of the system: see switch_network_qos. While
`flowcontrol` is on, PFC is not in operation: see switch_flow_control.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring Priority Flow Control"; IEEE
802.1Qbb.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus_qos import interface_of, no_port, place_of
from railbed.check.shared.port import no_pfc
from railbed.parsing.nexus.answer import find_port
from railbed.probes.nexus import interface, pfc, port_channel
from railbed.probes.nexus.pfc import PortPfc
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Compare the mode, the operation and the priorities with the policy."""
    expected = f"PFC on, priority {port.policy.priority} only"
    state, link = find_port(port.read(pfc.PROBE).ports, port.port.name), interface_of(port)
    if state is None or link is None:
        yield no_port(port)
    elif state.mode != "on":
        lines = (f"interface {place_of(port)}", "  priority-flow-control mode on")
        yield fail(expected=expected, observed=_describe(state), fix=nexus.enter(port.switch, None, lines))
    elif not link.up:
        yield unknown(expected=expected, observed="mode on, but the link is down", remedy="see switch_link")
    elif state.priorities == (port.policy.priority,):
        yield ok(expected=expected, observed=_describe(state))
    else:
        yield fail(expected=expected, observed=_describe(state), remedy="see switch_network_qos")


def _describe(state: PortPfc) -> str:
    if not state.operational:
        return f"mode {state.mode}, not in operation"
    named = ", ".join(map(str, state.priorities))
    return f"mode {state.mode}, pauses {f'priority {named}' if named else 'no priority'}"


RULE = Rule(
    name="switch_pfc",
    title="PFC of switch ports",
    scope="switch port",
    needs=(pfc.PROBE, interface.PROBE, port_channel.PROBE),
    judge=judge,
    unless=no_pfc,
    doc=__doc__,
)
