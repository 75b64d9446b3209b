"""The PFC watchdog is on, on every switch port with a node.

What
----
`show queuing pfc-queue detail` shows the watchdog enabled on each port of the cluster file, and no queue shut down.

Why
---
A card that hangs may send pause frames forever. The switch then stops the port, its buffers fill, it pauses the other
senders, and the standstill spreads over the whole fabric. The watchdog drops the packets for the port that is stuck,
and the others keep working.

Fix
---
`priority-flow-control watch-dog-interval on`, once for the switch and once in each `interface`. If a queue is shut
down, look at the host behind the port: it does not drain what it receives.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring a Priority Flow Control Watchdog".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus_qos import no_port, place_of, port_name_of
from railbed.check.shared.port import no_pfc
from railbed.model.fix import Fix
from railbed.parsing.nexus.answer import find_port
from railbed.probes.nexus import interface, port_channel, running_qos, version, watchdog
from railbed.probes.nexus.running_qos import PortQos
from railbed.rules.judgement import Judgement, fail, ok, skip
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView

LINE = "priority-flow-control watch-dog-interval on"
EXPECTED = "watchdog on"


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Look at the watchdog's state on the port."""
    if port.read(version.PROBE).is_nexus_5000:
        yield skip("this Nexus has no PFC watchdog")
    else:
        yield _judge(port)


def _judge(port: SwitchPortView) -> Judgement:
    watched = find_port(port.read(watchdog.PROBE).ports, port_name_of(port))
    if watched is None:
        return no_port(port)
    stopped = [group for group, queue in watched.queues.items() if queue.state.startswith("shut")]
    if stopped:
        return fail(
            expected=EXPECTED,
            observed=f"the queue of QoS group {stopped[0]} is shut down",
            remedy=f"look at {port.port.node}: it does not drain what it receives",
        )
    if watched.enabled:
        return ok(expected=EXPECTED, observed="watchdog on")
    return fail(expected=EXPECTED, observed="watchdog off", fix=_fix(port, place_of(port)))


def _fix(port: SwitchPortView, name: str) -> Fix:
    """Turn it on where it is off: for the switch, on the port, or both."""
    configured = port.read(running_qos.PROBE)
    own = find_port(configured.ports, name) or PortQos()
    lines = [] if configured.watchdog else [LINE]
    if not own.watchdog:
        lines += [f"interface {name}", f"  {LINE}"]
    return nexus.enter(port.switch, None, lines)


RULE = Rule(
    name="switch_watchdog",
    title="PFC watchdog of switch ports",
    scope="switch port",
    needs=(watchdog.PROBE, running_qos.PROBE, version.PROBE, interface.PROBE, port_channel.PROBE),
    judge=judge,
    unless=no_pfc,
    doc=__doc__,
)
