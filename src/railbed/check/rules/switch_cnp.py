"""Congestion notifications use a strict priority queue at every switch port with a node.

What
----
The qos policy of the port puts the policy's `cnp_dscp` into a QoS group that is not the no-drop group and whose queue
has `priority level` in the queuing policy. As in switch_dscp, a class that matches an access list leaves it unknown.

Why
---
A congestion notification (CNP) makes the sender slow down. If it waits in a full queue, the sender continues at full
speed, buffers fill and PFC stops whole links. CNPs are few and small, so a queue that is always served first costs
nothing.

Fix
---
A `class-map type qos match-any` with `match dscp 48`, `set qos-group 7` for it in the port's qos policy (3 on
switches with four queues), and `priority level 1` for the queue of that group, which the built-in policies already
have. There is only one strict queue, and it is that of the highest group: if RDMA is in it, or if your own policy has
to give up bandwidth, the change is left to you. Your own policies are extended if you name this rule.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring Queuing and Scheduling" (a single
strict queue is that of QoS group 3, several are neighbours from the top); nxos_config_roce.py (CNP to qos-group 7,
`c-out-8q-q7` with `priority level 1`); DCQCN, SIGCOMM 2015, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus import depends_on_packet, group_lines, group_of_dscp
from railbed.check.shared.nexus_counters import slowest_gbps, thresholds_for
from railbed.check.shared.nexus_qos import (
    LIMIT_PROBES,
    QOS_PROBES,
    SwitchQos,
    interface_of,
    no_port,
    place_of,
    qos_obstacle,
    qos_of,
    room_to_verify,
)
from railbed.probes.nexus import interface
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Compare the group of the CNPs' DSCP with the groups that are served first."""
    qos, dscp = qos_of(port.switch), port.policy.cnp_dscp
    expected = f"DSCP {dscp} in a strict priority queue"
    if interface_of(port) is None:
        yield no_port(port)
        return
    group, observed = group_of_dscp(qos, port, dscp)
    if group is None:
        yield depends_on_packet(port, expected, observed)
        return
    strict = qos.strict_groups(qos.egress(place_of(port)))
    if group in strict and group != qos.wanted_group:
        yield ok(expected=expected, observed=observed)
        return
    classified_only = f"{observed}, which is not served first" if group else observed
    lines, advice = _lines(qos, port, strict)
    remedy = qos_obstacle(port.switch, qos) or advice
    fix = None if remedy else nexus.enter(port.switch, qos, lines, condition=room_to_verify(port, qos))
    yield fail(expected=expected, observed=classified_only, fix=fix, remedy=remedy)


def _lines(qos: SwitchQos, port: SwitchPortView, strict: list[int]) -> tuple[tuple[str, ...], str]:
    """Return the lines that have notifications served first, or advice: there are never two strict queues."""
    dscp, others = port.policy.cnp_dscp, [group for group in strict if group != qos.wanted_group]
    if others:
        return group_lines(qos, port, nexus.CNP_CLASS, dscp, others[0])
    group, place = qos.wanted_strict_group, place_of(port)
    policy = nexus.queuing_policy(qos, place)
    if group is None:
        return (), _advise_other_group(qos)
    queue = qos.queue_of(qos.egress(place), group) if policy else None
    name = qos.class_name("queuing", group) or f"QoS group {group}"
    if strict and policy:
        return (
            (),
            f"in {policy}, give `priority level 1` to {name} in place of the queue of RDMA, which needs bandwidth",
        )
    if queue and queue.bandwidth is not None:
        return (), f"in {policy}, give `priority level 1` to {name} in place of its bandwidth"
    lines, advice = group_lines(qos, port, nexus.CNP_CLASS, dscp, group)
    added = nexus.strict(qos, place, group, thresholds_for(port.policy, slowest_gbps(port.switch)))
    return (*lines, *added) if lines else (), advice


def _advise_other_group(qos: SwitchQos) -> str:
    """Return what to do if RDMA is in the group of the only queue that can be served first by itself."""
    highest = qos.wanted_group
    lower = qos.class_name("network-qos", highest - 1)
    return (
        f"a single strict queue is that of QoS group {highest}, which RDMA is in: move RDMA to group {highest - 1} "
        f"(`pause pfc-cos {qos.policy.priority}` in {lower}, `set qos-group {highest - 1}`), "
        f"and notifications to group {highest}"
    )


def _unless(port: SwitchPortView) -> str:
    return "" if port.policy.ecn else "the policy has ECN off: there are no CNPs"


RULE = Rule(
    name="switch_cnp",
    title="congestion notifications served first",
    scope="switch port",
    needs=(*QOS_PROBES, *LIMIT_PROBES, interface.PROBE),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
