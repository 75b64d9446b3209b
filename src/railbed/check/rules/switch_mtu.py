"""The MTU of every switch port with a node is that of the policy.

What
----
`show interface` shows at least the policy's `switch_mtu` on each port of the cluster file.

Why
---
A switch silently drops packets that are longer than its MTU: small ones pass, connections are established, and the
first gradient bucket hangs. The switch's MTU must hold the nodes' MTU plus headers, hence 9216 for 9000.

Fix
---
`interface Ethernet1/1` and `mtu 9216`; for a member of a port-channel at the port-channel. On switched ports a Nexus
9000 accepts only 1500 and its `system jumbomtu`, which is 9216 by default. On a Nexus 5000 the MTU is that of the
network-qos classes.

Source
------
Cisco Nexus 9000 Series NX-OS Interfaces Configuration Guide, "Configuring the MTU Size".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus_qos import interface_of, no_port, place_of
from railbed.probes.nexus import interface, port_channel, version
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Compare the port's MTU with the policy's."""
    wanted = port.policy.switch_mtu
    expected = f"MTU {wanted}"
    link = interface_of(port)
    if port.read(version.PROBE).is_nexus_5000:
        yield skip("on this Nexus the MTU is that of network-qos: see switch_network_qos")
    elif link is None:
        yield no_port(port)
    elif link.mtu is None:
        yield unknown(expected=expected, observed="the switch does not report it")
    elif link.mtu < wanted:
        lines = (f"interface {place_of(port)}", f"  mtu {wanted}")
        yield fail(expected=expected, observed=f"MTU {link.mtu}", fix=nexus.enter(port.switch, None, lines))
    else:
        yield ok(expected=expected, observed=f"MTU {link.mtu}")


RULE = Rule(
    name="switch_mtu",
    title="MTU of switch ports",
    scope="switch port",
    needs=(interface.PROBE, version.PROBE, port_channel.PROBE),
    judge=judge,
    doc=__doc__,
)
