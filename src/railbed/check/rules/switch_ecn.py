"""The queue of RDMA marks packets with ECN, from a length that suits the port's speed.

What
----
The queuing policy in force on each port with a node has `random-detect … ecn` on the queue of the no-drop group. The
lower threshold is the cluster file's `ecn_low_kbytes`; if it has none, a queue of that length must hold 5 to 250
microseconds of traffic.

Why
---
ECN slows senders down before the queue is full, so that PFC rarely has to stop them. Without the keyword `ecn`, WRED
drops packets of a class that must not lose any. Thresholds are in bytes: a value for 400 Gb/s marks far too late at 25,
and PFC pauses first; one for 25 Gb/s marks every burst at 400, and the links idle.

Fix
---
`random-detect minimum-threshold 150 kbytes maximum-threshold 3000 kbytes drop-probability 7 weight 0 ecn` in the
queue's class: 60 and 600 at 10 Gb/s, 150 and 1500 from 25 to 50, 150 and 3000 at 100, 475 and 3000 at 200, 950 and
3000 at 400, or your own values in the cluster file. The built-in policy cannot be changed, so a new one takes its
place, attached to the port: only that port loses packets for a moment, while a change at `system qos` interrupts all
ports of the switch. A policy of your own is changed where it is in force, if you name this rule.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring Queuing and Scheduling";
nxos_config_roce.py (950 and 3000 for 400 Gb/s); Cisco's example for 100 Gb/s (150 and 3000); Azure Local (300 and
300); Intel, Ethernet 800 Series flow control guide (PFC must not trigger before ECN). The limits of 5 and 250
microseconds are our own: all published values lie between them. So is scaling below 25 Gb/s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared import nexus
from railbed.check.shared.nexus_counters import Thresholds, slowest_gbps, thresholds_for, unsuitable
from railbed.check.shared.nexus_qos import (
    LIMIT_PROBES,
    QOS_PROBES,
    SwitchQos,
    interface_of,
    no_port,
    place_of,
    qos_obstacle,
    qos_of,
)
from railbed.check.shared.port import no_ecn
from railbed.model.fix import Fix
from railbed.parsing.nexus.qos import PolicyMap, Wred
from railbed.probes.nexus import interface
from railbed.rules.judgement import Judgement, fail, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Look at the WRED settings of the RDMA queue."""
    qos = qos_of(port.switch)
    if qos.family == "5000":
        yield skip("this Nexus does not mark packets with ECN")
    elif interface_of(port) is None:
        yield no_port(port)
    else:
        wanted = thresholds_for(port.policy, slowest_gbps(port.switch))
        judgement = _judge(port, qos, qos.egress(place_of(port)), wanted)
        obstacle = qos_obstacle(port.switch, qos)
        yield replace(judgement, fix=None, remedy=obstacle) if judgement.fix and obstacle else judgement


def _judge(port: SwitchPortView, qos: SwitchQos, policy: PolicyMap | None, wanted: Thresholds) -> Judgement:
    queue = qos.queue_of(policy, qos.wanted_group)
    expected = f"ECN marks from {wanted.shown}"
    if queue is None or queue.wred is None:
        named = f"{policy.name}: " if policy else ""
        observed = f"{named}no random-detect on the queue of QoS group {qos.wanted_group}"
        return fail(expected=expected, observed=observed, fix=_fix(port, qos, wanted))
    if not queue.wred.ecn:
        return fail(expected=expected, observed=f"{queue.name} drops instead of marking", fix=_fix(port, qos, wanted))
    reason = unsuitable(queue.wred, port.policy, port)
    if not reason:
        return ok(expected=expected, observed=f"{queue.name}: {_describe_wred(queue.wred)}")
    is_filed = port.policy.ecn_low_kbytes or port.policy.ecn_high_kbytes
    fix = _fix(port, qos, wanted)
    return (fail if is_filed else warn)(expected=expected, observed=f"{queue.name} {reason}", fix=fix)


def _fix(port: SwitchPortView, qos: SwitchQos, wanted: Thresholds) -> Fix:
    return nexus.enter(port.switch, qos, nexus.mark(qos, place_of(port), wanted))


def _describe_wred(wred: Wred) -> str:
    if wred.low_kbytes is None or wred.high_kbytes is None:
        return "ECN, default thresholds"
    return f"ECN from {wred.low_kbytes:g} to {wred.high_kbytes:g} kbytes"


RULE = Rule(
    name="switch_ecn",
    title="ECN marking on the RDMA queue",
    scope="switch port",
    needs=(*QOS_PROBES, *LIMIT_PROBES, interface.PROBE),
    judge=judge,
    unless=no_ecn,
    doc=__doc__,
)
