"""RDMA packets are classified into the no-drop group at every switch port with a node.

What
----
The qos policy of the port (or of the system) has a class that matches the policy's DSCP and sets the QoS group that
the network-qos policy makes lossless. It is unknown if a class before that one matches an access list, or has several
lines with `match-all`, which NX-OS 7.x treats as `match-any` on a Nexus 9000.

Why
---
A switch does not trust DSCP by default: without this policy, RDMA is in the default queue with everything else, and is
dropped like everything else, although PFC is on and the no-drop queue is empty. A match on CoS does not help: packets
without a VLAN tag have none.

Fix
---
A `class-map type qos match-any` with `match dscp 26`, a `policy-map type qos` that sets `qos-group 3` for it, and
`service-policy type qos input` with that policy on the port, or on its port-channel: a policy of a member has no
effect. Existing policies are extended, not replaced, if you name this rule. A qos policy needs room in the TCAM
(`show hardware access-list tcam region`: `ing-l2-qos`, on older switches `qos`; `ing-l3-vlan-qos` or `l3qos` at
routed ports), which only a reload changes: without it, no QoS policy of the switch is changed.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring Classification" (release 7.x for
`match-all`), "Using Modular QoS CLI" (policies and port-channels) and "Configuring QoS TCAM Carving";
nxos_config_roce.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus import depends_on_packet, group_lines, group_of_dscp
from railbed.check.shared.nexus_qos import (
    LIMIT_PROBES,
    QOS_PROBES,
    interface_of,
    no_port,
    qos_obstacle,
    qos_of,
    room_to_verify,
)
from railbed.check.shared.port import no_lossless
from railbed.probes.nexus import interface
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import Rule
from railbed.rules.site import SwitchPortView


def judge(port: SwitchPortView) -> Iterator[Judgement]:
    """Compare the group of the policy's DSCP with the no-drop group."""
    qos, dscp = qos_of(port.switch), port.policy.dscp
    expected = f"DSCP {dscp} in QoS group {qos.wanted_group}"
    if interface_of(port) is None:
        yield no_port(port)
        return
    group, observed = group_of_dscp(qos, port, dscp)
    if group is None:
        yield depends_on_packet(port, expected, observed)
        return
    if group == qos.wanted_group:
        yield ok(expected=expected, observed=observed)
        return
    lines, advice = group_lines(qos, port, nexus.ROCE_CLASS, dscp, qos.wanted_group)
    remedy = qos_obstacle(port.switch, qos) or advice
    fix = None if remedy else nexus.enter(port.switch, qos, lines, condition=room_to_verify(port, qos))
    yield fail(expected=expected, observed=observed, fix=fix, remedy=remedy)


RULE = Rule(
    name="switch_dscp",
    title="RDMA in the no-drop group",
    scope="switch port",
    needs=(*QOS_PROBES, *LIMIT_PROBES, interface.PROBE),
    judge=judge,
    unless=no_lossless,
    doc=__doc__,
)
