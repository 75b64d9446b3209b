"""Every switch port with a node on it is up.

What
----
`show interface` shows, for each port that the cluster file gives the switch, a link that is up.

Why
---
A port that is down cuts its node off the rail, and no other rule can judge it. A port name that the switch does not
have is a mistake in the cluster file: the wrong port would be configured.

Fix
---
A port that was shut down: `no shutdown`, once you know that nobody shut it down for a reason; `railbed configure --rule
switch_link` includes it. Otherwise check the cable and the transceiver (`show interface
transceiver`), the speed that both ends are set to, and the node's own interface.

Source
------
Cisco Nexus 9000 Series NX-OS Interfaces Configuration Guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.nexus_qos import interface_of, port_name_of
from railbed.model.fix import configure_lines
from railbed.probes.nexus import interface
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Look at the state of the port."""
    expected = "link up"
    link = interface_of(port)
    if link is None:
        yield fail(
            expected=expected,
            observed=f"no port {port.port.name}",
            remedy=f"correct `name: {port.port.name}` at {port.switch.name} in the cluster file",
        )
    elif link.up:
        yield ok(expected=expected, observed=f"up, {link.speed_mbps / 1000:g} Gb/s" if link.speed_mbps else "up")
    elif not link.enabled:
        lines = (f"interface {port_name_of(port)}", "  no shutdown")
        fix = configure_lines(port.switch.name, *lines, condition="unless somebody shut it down for a reason")
        yield fail(expected=expected, observed="shut down", fix=fix)
    else:
        yield fail(expected=expected, observed=f"down ({link.reason})" if link.reason else "down")


RULE = Rule(
    name="switch_link",
    title="switch ports with nodes are up",
    scope="switch port",
    stage="cabling",
    needs=(interface.PROBE,),
    judge=judge,
    doc=__doc__,
)
