"""The switch passes the packets that its nodes send.

What
----
The MTU of each switch port is at least that of the node's interface at the other end of the cable.

Why
---
A node with MTU 9000 on a port with MTU 1500 reaches everyone with small packets and no one with large ones:
connections are established, and the first gradients hang.

Fix
---
Raise the MTU of the switch port (see switch_mtu), or lower that of the whole rail in the cluster file.

Source
------
Cisco Nexus 9000 Series NX-OS Interfaces Configuration Guide, "Configuring the MTU Size".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nexus_qos import interface_of, no_port
from railbed.check.shared.port import no_interface
from railbed.probes import ip_link
from railbed.probes.nexus import interface, version
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import CableView


def judge(cable: CableView) -> Iterator[Judgement]:
    """Compare the two MTUs."""
    netdev = cable.port.port.netdev
    link = cable.port.read(ip_link.PROBE).links.get(netdev)
    other = interface_of(cable.switch_port)
    if link is None:
        yield no_interface(netdev)
    elif other is None:
        yield no_port(cable.switch_port)
    elif cable.switch_port.read(version.PROBE).is_nexus_5000:
        yield skip("on this Nexus the MTU is that of network-qos: see switch_network_qos")
    else:
        yield _compare(cable, link.mtu, other.mtu)


def _compare(cable: CableView, here: int, there: int | None) -> Judgement:
    where, expected = cable.switch_port.subject, f"MTU {here} or more at the switch"
    if there is None:
        return unknown(expected=expected, observed=f"{where} does not report its MTU")
    return (ok if here <= there else fail)(expected=expected, observed=f"MTU {there} at {where}")


RULE = Rule(
    name="cable_mtu",
    title="the switch passes the nodes' packets",
    scope="cable",
    stage="switch",
    needs=(ip_link.PROBE, interface.PROBE, version.PROBE),
    judge=judge,
    doc=__doc__,
)
