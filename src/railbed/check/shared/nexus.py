"""What rules about a Nexus share: into which QoS group a port puts a DSCP, and the lines that fix a switch.

Policies of the site that are in use are extended, never replaced, and only if a person decides so; if only built-in
ones are in force, new policies are created, whose names begin with RAILBED. A queuing policy is attached to the ports
of the cluster file, where it interrupts nobody else. Lines are indented as in `show running-config`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from railbed.check.shared.nexus_counters import Thresholds
from railbed.check.shared.nexus_qos import HIGHEST_GROUP, SwitchQos, place_of
from railbed.model.fix import Fix, configure_lines
from railbed.parsing.nexus.interruption import interruption_of
from railbed.parsing.nexus.qos import PolicyType
from railbed.rules.judgement import Judgement, unknown
from railbed.rules.site import SwitchPortView, SwitchView

ROCE_CLASS, CNP_CLASS = "RAILBED-ROCE", "RAILBED-CNP"
CLASSIFY, NETWORK, EGRESS = "RAILBED-CLASSIFY", "RAILBED-NETWORK", "RAILBED-EGRESS"
OURS = "RAILBED-"
HALF = 50
EDITED = re.compile(r"policy-map type (?P<kind>\S+) (?P<name>\S+)")


def enter(
    switch: SwitchView, qos: SwitchQos | None, lines: Iterable[str], *, alternative: str = "", condition: str = ""
) -> Fix:
    """Return the fix that enters lines: with what it interrupts, and a question if it extends a policy of the site."""
    lines = tuple(lines)
    places = qos.running.places if qos else {}
    names = [match["name"] for line in lines if qos and (match := EDITED.fullmatch(line)) and _is_theirs(qos, match)]
    may_change = f"if {' and '.join(dict.fromkeys(names))} may be changed" if names else ""
    condition = " and ".join(filter(None, (may_change, condition)))
    interruption = interruption_of(lines, places)
    return configure_lines(switch.name, *lines, interruption=interruption, condition=condition, alternative=alternative)


def _is_theirs(qos: SwitchQos, policy: re.Match[str]) -> bool:
    name = policy["name"]
    return not name.startswith(OURS) and qos.running.policy(name, policy["kind"]) is not None


def classify(qos: SwitchQos, port: str, name: str, dscp: int, group: int) -> tuple[str, ...]:
    """Put a DSCP into a QoS group at a port: in a separate class, in the port's policy or in a new one."""
    attached = qos.port(port).policies.get("qos input") or qos.running.system.get("qos input")
    existing = qos.class_of_dscp(qos.classification(port), dscp)
    policy = attached or CLASSIFY
    own = existing.name if existing else name
    lines = [] if existing else [f"class-map type qos match-any {own}", f"  match dscp {dscp}"]
    lines += [f"policy-map type qos {policy}", f"  class {own}", f"    set qos-group {group}"]
    if not attached:
        lines += [f"interface {port}", f"  service-policy type qos input {policy}"]
    return tuple(lines)


def no_drop(qos: SwitchQos) -> tuple[str, ...]:
    """Pause the policy's priority for the RDMA group, with packets of the policy's size."""
    mtu, attached = qos.policy.switch_mtu, qos.running.system.get("network-qos")
    own = qos.no_drop_class.name if qos.no_drop_class else qos.class_name("network-qos", qos.wanted_group)
    lines = [] if own else _class_map("network-qos", ROCE_CLASS, qos.wanted_group)
    lines += [
        f"policy-map type network-qos {attached or NETWORK}",
        f"  class type network-qos {own or ROCE_CLASS}",
        f"    mtu {mtu}",
        "    pause no-drop" if qos.family == "5000" else f"    pause pfc-cos {qos.policy.priority}",
    ]
    if not attached:
        default = qos.class_name("network-qos", 0)
        lines += [f"  class type network-qos {default}", f"    mtu {mtu}"]
        lines += ["system qos", f"  service-policy type network-qos {NETWORK}"]
    return tuple(lines)


def mark(qos: SwitchQos, port: str, thresholds: Thresholds) -> tuple[str, ...]:
    """Mark packets of the RDMA queue of a port with ECN."""
    own = queuing_policy(qos, port)
    if own is None:
        return egress(qos, port, thresholds)
    queue = qos.class_name("queuing", qos.wanted_group)
    return (f"policy-map type queuing {own}", f"  class type queuing {queue}", f"    {thresholds.line}")


def queuing_policy(qos: SwitchQos, port: str) -> str | None:
    """Return the configured queuing policy of a port or the system; None if the built-in one applies."""
    return qos.port(port).policies.get("queuing output") or qos.running.system.get("queuing output")


def strict(qos: SwitchQos, port: str, group: int, thresholds: Thresholds) -> tuple[str, ...]:
    """Serve a QoS group first at a port whose policy has no strict queue."""
    policy = queuing_policy(qos, port)
    if policy is None:
        return egress(qos, port, thresholds)
    queue = qos.class_name("queuing", group)
    lines = [] if queue else _class_map("queuing", CNP_CLASS, group)
    lines += [f"policy-map type queuing {policy}", f"  class type queuing {queue or CNP_CLASS}"]
    return (*lines, _priority(qos))


def egress(qos: SwitchQos, port: str, thresholds: Thresholds) -> tuple[str, ...]:
    """Serve congestion notifications first and split the rest evenly between RDMA and everything else.

    This takes the place of the built-in policy, which cannot be changed, at one port: at `system qos` it would
    interrupt all ports of the switch.
    """
    queues = _queues_5000(qos) if qos.family == "5000" else _queues(qos, thresholds)
    return (*queues, f"interface {port}", f"  service-policy type queuing output {EGRESS}")


def _queues(qos: SwitchQos, thresholds: Thresholds) -> Iterator[str]:
    yield f"policy-map type queuing {EGRESS}"
    for group in reversed(range(HIGHEST_GROUP[qos.family] + 1)):
        yield f"  class type queuing {qos.class_name('queuing', group)}"
        if group == qos.wanted_strict_group:
            yield _priority(qos)
            continue
        yield f"    bandwidth remaining percent {HALF if group in (qos.wanted_group, 0) else 0}"
        if group == qos.wanted_group and qos.policy.ecn:
            yield f"    {thresholds.line}"


def _queues_5000(qos: SwitchQos) -> Iterator[str]:
    """Yield classes for congestion notifications, RDMA and the rest; all but the last are the user's own."""
    strict_group = HIGHEST_GROUP["5000"] if qos.wanted_strict_group is None else qos.wanted_strict_group
    groups = {strict_group: CNP_CLASS, qos.wanted_group: ROCE_CLASS}
    names = {group: qos.class_name("queuing", group) or name for group, name in groups.items()}
    for group, name in groups.items():
        if names[group] == name:
            yield from _class_map("queuing", name, group)
    yield f"policy-map type queuing {EGRESS}"
    yield from (f"  class type queuing {names[strict_group]}", _priority(qos))
    for name in (names[qos.wanted_group], qos.class_name("queuing", 0) or "class-default"):
        yield from (f"  class type queuing {name}", f"    bandwidth percent {HALF}")


def _class_map(kind: PolicyType, name: str, group: int) -> list[str]:
    """Return a class of a Nexus 5000; the classes of others are built in."""
    return [f"class-map type {kind} {name}", f"  match qos-group {group}"]


def _priority(qos: SwitchQos) -> str:
    return "    priority" if qos.family == "5000" else "    priority level 1"


def group_of_dscp(qos: SwitchQos, port: SwitchPortView, dscp: int) -> tuple[int | None, str]:
    """Return the QoS group of a DSCP at a port, and a description of what decides it; None if that is not known."""
    policy = qos.classification(place_of(port))
    if policy and (undecided := qos.undecided_class(policy, dscp)):
        return None, f"{policy.name}: class {undecided.name} matches {' and '.join(undecided.matches)}"
    item = qos.class_of_dscp(policy, dscp)
    if item is not None and policy is not None:
        group = item.qos_group or 0
        return group, f"DSCP {dscp} in QoS group {group} ({policy.name}, class {item.name})"
    if policy is None:
        return 0, "no qos policy"
    named = [
        match for entry in policy.classes if (matched := qos.running.class_map(entry.name)) for match in matched.matches
    ]
    return 0, f"{policy.name} does not match DSCP {dscp}{f', only {named[0]}' if len(named) == 1 else ''}"


def depends_on_packet(port: SwitchPortView, expected: str, observed: str) -> Judgement:
    """Return that packets are classified by something that the configuration of QoS does not show."""
    return unknown(
        expected=expected,
        observed=observed,
        remedy=f"see what it matches (`show access-lists`, `show policy-map interface {port.port.name} type qos`), or "
        "put `match dscp` into a class of its own before it",
    )


def group_lines(qos: SwitchQos, port: SwitchPortView, name: str, dscp: int, group: int) -> tuple[tuple[str, ...], str]:
    """Return the lines that put a DSCP into a group, or advice if one of the site's classes has to be split."""
    place = place_of(port)
    policy = qos.classification(place)
    item = qos.class_of_dscp(policy, dscp)
    matched = qos.running.class_map(item.name) if item else None
    if item and policy and matched and matched.dscps != {dscp}:
        others = "other DSCPs" if len(matched.dscps) > 2 else f"DSCP {min(matched.dscps - {dscp})}"
        return (), (
            f"class {item.name} of {policy.name} also has {others}: "
            f"put DSCP {dscp} into a separate class before it, with `set qos-group {group}`"
        )
    return classify(qos, place, name, dscp, group), ""
