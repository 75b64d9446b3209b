"""No switch port with a node drops or damages packets or is congested during the check.

What
----
Between two readings, no counter of drops in the no-drop queue, of drops at the ingress, of damaged packets or of
watchdog shutdowns increases (fail), and none of pause frames, ECN marks or drops in other queues (warn).

Why
---
A drop in the no-drop queue means that the fabric is not lossless, no matter what is configured. Damaged packets mean a
cable that is about to fail. Pause frames and ECN marks show congestion. That is normal during training; while nothing
is running, it means that a host does not drain its data or that other traffic shares the class.

Fix
---
Drops in the no-drop queue: see switch_pfc and pfc on both ends of the port, and switch_network_qos. Drops at the
ingress: buffers for the no-drop class are too small, or the sender ignores pause. crc, fcs: clean or replace the
cable and the transceiver. Shutdowns: find the host that does not drain its queue.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Monitoring QoS Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.counters import growths
from railbed.check.shared.nexus_counters import COUNTER_PROBES, counters_of, is_congestion, is_loss
from railbed.check.shared.nexus_qos import QOS_PROBES, interface_of, no_port, qos_of
from railbed.check.shared.port import some
from railbed.model.text import plural
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView

EXPECTED = "no drops, errors, pauses or marks"
CONGESTED = "more is sent than a port can carry: check what is running now, and what other traffic shares the class"


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Compare two readings."""
    if interface_of(port) is None:
        yield no_port(port)
        return
    group = str(qos_of(port.switch).wanted_group)
    first, second = (counters_of(port, group, again=again) for again in (False, True))
    growth = growths(first, second)
    losses = {name: count for name, count in growth.items() if is_loss(name)}
    congestion = {name: count for name, count in growth.items() if is_congestion(name)}
    evidence = "\n".join(f"{name} {count} (+{growth.get(name, 0)})" for name, count in second.items() if count)
    if losses:
        yield fail(expected=EXPECTED, observed=_describe_growth(losses), evidence=evidence)
    elif congestion:
        yield warn(expected=EXPECTED, observed=_describe_growth(congestion), remedy=CONGESTED, evidence=evidence)
    else:
        watched = sum(1 for name in first if is_loss(name) or is_congestion(name))
        yield ok(expected=EXPECTED, observed=f"{plural(watched, 'counter')} unchanged", evidence=evidence)


def _describe_growth(growth: dict[str, int]) -> str:
    return some([f"{name} +{count}" for name, count in growth.items()], 2)


RULE = Rule(
    name="switch_counters",
    title="no drops, errors or congestion on switch ports",
    scope="switch port",
    needs=(*COUNTER_PROBES, *QOS_PROBES),
    judge=judge,
    doc=__doc__,
)
