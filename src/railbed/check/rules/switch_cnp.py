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
A `class-map type qos match-any` with `match dscp 48`, `set qos-group 7` for it in the port's qos policy, and
`priority level 1` for the queue of that group, which the built-in policy of switches with eight queues already has.

Source
------
nxos_config_roce.py (CNP to qos-group 7, `c-out-8q-q7` with `priority level 1`); DCQCN, SIGCOMM 2015, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from railbed.check.shared import nexus
from railbed.check.shared.nexus import depends_on_packet, group_of_dscp, set_group
from railbed.check.shared.nexus_counters import slowest_gbps, thresholds_for
from railbed.check.shared.nexus_qos import QOS_PROBES, SwitchQos, interface_of, no_port, port_name_of, qos_of
from railbed.model.fix import ConfigStep, Fix
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
    strict = [other for other in qos.strict_groups(qos.egress(port.port.name)) if other != qos.wanted_group]
    if group in strict:
        yield ok(expected=expected, observed=observed)
        return
    classified_only = f"{observed}, which is not served first" if group else observed
    fix, remedy = _fix(qos, port, strict)
    yield fail(expected=expected, observed=classified_only, fix=fix, remedy=remedy)


def _fix(qos: SwitchQos, port: SwitchPortView, strict: list[int]) -> tuple[Fix | None, str]:
    group = strict[0] if strict else qos.wanted_strict_group
    fix, remedy = set_group(qos, port, nexus.CNP_CLASS, port.policy.cnp_dscp, group)
    if fix is None or strict:
        return fix, remedy
    name = port_name_of(port)
    policy = nexus.queuing_policy(qos, name)
    added = nexus.strict(qos, name, group, thresholds_for(port.policy, slowest_gbps(port.switch)))
    condition = f"if {policy} may be changed" if policy not in (None, nexus.EGRESS) else ""
    return replace(fix, apply=(*fix.apply, ConfigStep(lines=added)), condition=condition), remedy


def _unless(port: SwitchPortView) -> str:
    return "" if port.policy.ecn else "the policy has ECN off: there are no CNPs"


RULE = Rule(
    name="switch_cnp",
    title="congestion notifications served first",
    scope="switch port",
    needs=(*QOS_PROBES, interface.PROBE),
    judge=judge,
    unless=_unless,
    doc=__doc__,
)
