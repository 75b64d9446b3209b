"""The switch has a no-drop class for the policy's priority, with room for the policy's packets.

What
----
The network-qos policy in force (`show policy-map system`) has a class with `pause pfc-cos` for the policy's priority
and an `mtu` of at least `switch_mtu`.

Why
---
Without a no-drop class the switch has no buffers to absorb what arrives until the sender has stopped, and PFC on a
port pauses nothing: under an all-reduce, where many send to one, packets are lost.

Fix
---
A `policy-map type network-qos` with `pause pfc-cos 3` and `mtu 9216` in `c-8q-nq3` (`c-nq2` on switches with four
queues, where group 3 is that of the strict queue), as the service policy of `system qos`. On a Nexus 5000, a
class-map of your own with `match qos-group 3`, and `pause no-drop` and `mtu 9216` in the policy. The policy exists
only for the whole switch: all its ports lose packets for a moment, also those of others. A policy of your own that is
in force is extended if you name this rule. Without room in the TCAM to classify packets, or with FCoE on a Nexus
5000, nothing is changed.

Source
------
Cisco Nexus 9000 Series NX-OS Quality of Service Configuration Guide, "Configuring Network QoS", "Configuring Queuing
and Scheduling" and "Configuring QoS TCAM Carving"; nxos_config_roce.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared import nexus
from railbed.check.shared.nexus_qos import LIMIT_PROBES, QOS_PROBES, SwitchQos, qos_obstacle, qos_of
from railbed.check.shared.port import no_pfc
from railbed.model.fix import Fix
from railbed.probes.nexus import interface
from railbed.rules.judgement import Judgement, fail, ok
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import SwitchView


def judge(switch: SwitchView) -> Iterator[Judgement]:
    """Look for a class that is paused on the policy's priority."""
    wanted, mtu = switch.policy.priority, switch.policy.switch_mtu
    expected = f"pause on priority {wanted}, MTU {mtu}"
    qos = qos_of(switch)
    policy, item = qos.system.network_qos, qos.no_drop_class
    obstacle = qos_obstacle(switch, qos)
    if item is None:
        others = _list_paused(qos)
        named = f"pauses priority {', '.join(map(str, others))}" if others else "pauses no priority"
        observed = f"{policy.name} {named}" if policy else "no network-qos policy"
        fix = None if obstacle else _fix(switch, qos, others)
        yield fail(expected=expected, observed=observed, fix=fix, remedy=obstacle)
    elif (item.mtu or 0) < mtu:
        observed = f"{item.name}: MTU {item.mtu or 'not set'}"
        fix = None if obstacle else _fix(switch, qos, ())
        yield fail(expected=expected, observed=observed, fix=fix, remedy=obstacle)
    else:
        yield ok(expected=expected, observed=f"{item.name}: pause on priority {wanted}, MTU {item.mtu}")


def _list_paused(qos: SwitchQos) -> tuple[int, ...]:
    classes = qos.system.network_qos.classes if qos.system.network_qos else ()
    return tuple(sorted(priority for item in classes for priority in qos.paused_by(item)))


def _fix(switch: SwitchView, qos: SwitchQos, others: tuple[int, ...]) -> Fix:
    """Complete the policy; if the switch pauses another priority, the cluster file may be wrong."""
    edit = (
        f"if the hosts use it too, write `priority: {others[0]}` into `policy:` of the cluster file" if others else ""
    )
    return nexus.enter(switch, qos, nexus.no_drop(qos), alternative=edit)


def _by_hand(switch: SwitchView) -> Iterator[HandStep]:
    save = "save its configuration before the first change: `copy running-config bootflash:before-railbed`"
    yield HandStep(
        switch.name, f"{save}; ask who else uses it, since its no-drop class is that of all ports", proven=False
    )


RULE = Rule(
    name="switch_network_qos",
    title="no-drop class of the switch",
    scope="switch",
    needs=(*QOS_PROBES, *LIMIT_PROBES, interface.PROBE),
    judge=judge,
    by_hand=_by_hand,
    unless=no_pfc,
    doc=__doc__,
)
