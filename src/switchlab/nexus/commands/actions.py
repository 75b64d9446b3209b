"""What a policy does with a class: groups, bandwidth, WRED, pause, MTU."""

from __future__ import annotations

from switchlab.nexus.cli.commandset import CommandSet, Match
from switchlab.nexus.cli.context import Context
from switchlab.nexus.commands.qos import policy_in
from switchlab.nexus.model.config import Action, Config, PolicyClass, PolicyMap, QosKind, Rejected

actions = CommandSet()
UNIT_BYTES = {"bytes": 1, "kbytes": 1000, "mbytes": 1_000_000, "packets": 1500}
THRESHOLDS = "minimum-threshold <minimum:0-2147483647> (bytes|kbytes|mbytes|packets)"
THRESHOLDS += " maximum-threshold <maximum:0-2147483647> (bytes|kbytes|mbytes|packets)"
OPTIONS = "[drop-probability <probability:0-100>] [weight <weight:0-15>] [cap-average] [ecn]"
BUFFER = "buffer-size <size:0-100000000> pause-threshold <pause:0-100000000> resume-threshold <resume:0-100000000>"
MINIMUM_BUFFER, MINIMUM_THRESHOLD = 27_456, 12_480


def _target(context: Context, kind: QosKind) -> tuple[PolicyMap, PolicyClass]:
    policy = policy_in(context, kind)
    if context.mode.keys[1] not in policy.classes:
        raise Rejected("ERROR: Class does not exist in the policy-map\n")
    return policy, policy.classes[context.mode.keys[1]]


def _apply(item: PolicyClass, action: Action, *, negated: bool) -> None:
    if not negated:
        item.actions[action.key] = action
    elif item.actions.pop(action.key, None) is None:
        raise Rejected(f"ERROR: {action.key} is not configured in class {item.name}\n")


@actions.add("pmap-c-qos", "set qos-group <group:0-7>", "no set qos-group [<group:0-7>]")
def set_group(context: Context, match: Match) -> None:
    _, item = _target(context, "qos")
    group = match.values.get("group", 0)
    assert isinstance(group, int)
    if group >= context.config.platform.queues:
        raise Rejected(f"ERROR: qos-group is out of range (0-{context.config.platform.queues - 1})\n")
    _apply(item, Action("set", match.line, {"group": group}), negated=match.negated)


@actions.add(
    "pmap-c-qos",
    "set dscp <value:0-63>",
    "no set dscp [<value:0-63>]",
    "set cos <value:0-7>",
    "no set cos [<value:0-7>]",
)
def set_marking(context: Context, match: Match) -> None:
    _, item = _target(context, "qos")
    _apply(item, Action(" ".join(match.line.split()[:2]), match.line), negated=match.negated)


@actions.add(
    "pmap-c-queuing",
    "bandwidth [remaining] percent <percent:0-100>",
    "no bandwidth [[remaining] percent [<percent:0-100>]]",
)
def bandwidth(context: Context, match: Match) -> None:
    policy, item = _target(context, "queuing")
    if match.negated:
        _apply(item, Action("bandwidth", ""), negated=True)
        return
    _reject_together(item, "bandwidth", ("priority", "pause"))
    percent = match.number("percent")
    others = sum(other.value("bandwidth", "percent") or 0 for other in policy.classes.values() if other is not item)
    if others + percent > 100:
        raise Rejected("ERROR: Total bandwidth of all classes cannot exceed 100 percent\n")
    values = {"percent": percent, "remaining": int("remaining" in match.keywords)}
    _apply(item, Action("bandwidth", match.line, values), negated=False)


@actions.add("pmap-c-queuing", "priority [level <level:1-8>]", "no priority [level [<level:1-8>]]")
def priority(context: Context, match: Match) -> None:
    policy, item = _target(context, "queuing")
    if not match.negated:
        _reject_together(item, "priority", ("bandwidth", "pause"))
        level = match.values.get("level", 1)
        assert isinstance(level, int)
        if any(other is not item and other.value("priority", "level") == level for other in policy.classes.values()):
            raise Rejected(f"ERROR: Priority level {level} is already used by another class\n")
        _check_neighbours(context.config, policy, item)
        _apply(item, Action("priority", match.line, {"level": level}), negated=False)
    else:
        _apply(item, Action("priority", ""), negated=True)


def _check_neighbours(config: Config, policy: PolicyMap, item: PolicyClass) -> None:
    """Refuse strict queues other than the highest ones, side by side, on a switch with four queues."""
    if config.platform.queues != 4:
        return
    strict = [other for other in policy.classes.values() if other is item or "priority" in other.actions]
    groups = sorted(group for other in strict for group in config.class_maps["queuing", other.name].groups)
    if groups != list(range(4 - len(groups), 4)):
        raise Rejected("ERROR: priority is supported on qos-group 3, and on the groups next to it\n")


def _reject_together(item: PolicyClass, key: str, others: tuple[str, ...]) -> None:
    clash = next((other for other in others if other in item.actions), None)
    if clash is not None:
        raise Rejected(f"ERROR: {key} and {clash} cannot be configured together in class {item.name}\n")


@actions.add(
    "pmap-c-queuing",
    f"random-detect [{THRESHOLDS}] {OPTIONS}",
    "random-detect threshold (burst-optimized|mesh-optimized) [ecn]",
    f"no random-detect [{THRESHOLDS}] {OPTIONS}",
    "no random-detect threshold (burst-optimized|mesh-optimized) [ecn]",
    families=("n9k",),
)
def random_detect(context: Context, match: Match) -> None:
    _, item = _target(context, "queuing")
    if not match.negated:
        _reject_together(item, "random-detect", ("queue-limit",))
    _apply(item, Action("random-detect", match.line, _wred_values(match)), negated=match.negated)


def _wred_values(match: Match) -> dict[str, int]:
    values = {"ecn": int("ecn" in match.keywords)}
    if "minimum" not in match.values:
        return values
    words = match.words
    for name in ("minimum", "maximum"):
        unit = words[words.index(f"{name}-threshold") + 2]
        values[name] = match.number(name) * UNIT_BYTES[unit]
    if values["minimum"] > values["maximum"] and not match.negated:
        raise Rejected("ERROR: Minimum threshold cannot be greater than maximum threshold\n")
    values["probability"] = int(match.text("probability")) if "probability" in match.values else 100
    return values


@actions.add(
    "pmap-c-queuing",
    "queue-limit <limit:0-2147483647> (bytes|kbytes|mbytes|packets)",
    "queue-limit dynamic <alpha:0-10>",
    "no queue-limit [dynamic <alpha:0-10>|<limit:0-2147483647> (bytes|kbytes|mbytes|packets)]",
)
@actions.add(
    "pmap-c-queuing",
    "shape percent <percent:1-100>",
    "shape min <low:0-400> (mbps|gbps|kbps) max <high:0-400> (mbps|gbps|kbps)",
    "no shape [percent <percent:1-100>]",
    families=("n9k",),
)
def queue_setting(context: Context, match: Match) -> None:
    _, item = _target(context, "queuing")
    _apply(item, Action(match.line.split()[0], match.line), negated=match.negated)


@actions.add(
    "pmap-c-queuing",
    f"pause {BUFFER}",
    f"no pause [{BUFFER}]",
    families=("n9k",),
)
def pause_buffer(context: Context, match: Match) -> None:
    _, item = _target(context, "queuing")
    if not match.negated:
        _reject_together(item, "pause buffer", ("bandwidth", "priority"))
        if match.number("size") < MINIMUM_BUFFER:
            raise Rejected(f"ERROR: pause buffer-size must be at least {MINIMUM_BUFFER}\n")
        if min(match.number("pause"), match.number("resume")) < MINIMUM_THRESHOLD:
            raise Rejected(f"ERROR: pause-threshold and resume-threshold must be at least {MINIMUM_THRESHOLD}\n")
    numbers = {name: value for name, value in match.values.items() if isinstance(value, int)}
    _apply(item, Action("pause", match.line, numbers), negated=match.negated)


@actions.add("pmap-c-network-qos", "mtu <mtu:1500-9216>", "no mtu [<mtu:1500-9216>]")
def network_mtu(context: Context, match: Match) -> None:
    _, item = _target(context, "network-qos")
    mtu = match.values.get("mtu", 1500)
    assert isinstance(mtu, int)
    _apply(item, Action("mtu", match.line, {"mtu": mtu}), negated=match.negated)


@actions.add("pmap-c-network-qos", "pause pfc-cos <cos:0-7>", "no pause [pfc-cos [<cos:0-7>]]", families=("n9k",))
def pause_cos(context: Context, match: Match) -> None:
    policy, item = _target(context, "network-qos")
    if match.negated:
        _apply(item, Action("pause", ""), negated=True)
        return
    cos = match.number("cos")
    _check_no_drop(context.config, item)
    taken = next(
        (other.name for other in policy.classes.values() if other is not item and other.value("pause", "cos") == cos),
        None,
    )
    if taken is not None:
        raise Rejected(f"ERROR: pfc-cos {cos} is already used by class {taken}\n")
    _apply(item, Action("pause", match.line, {"cos": cos}), negated=False)


@actions.add(
    "pmap-c-network-qos",
    "pause no-drop [buffer-size <size:0-143680> pause-threshold <pause:0-143680> resume-threshold <resume:0-143680>]",
    "no pause [no-drop]",
    families=("n5k",),
)
def pause_no_drop(context: Context, match: Match) -> None:
    """Make a class of a Nexus 5000 lossless; the paused priority is that of its QoS group."""
    _, item = _target(context, "network-qos")
    groups = context.config.class_maps["network-qos", item.name].groups
    if not match.negated:
        _check_no_drop(context.config, item)
    _apply(item, Action("pause", match.line, {"cos": groups[0] if groups else 0}), negated=match.negated)


def _check_no_drop(config: Config, item: PolicyClass) -> None:
    if 0 in config.class_maps["network-qos", item.name].groups:
        raise Rejected(f"ERROR: pause cannot be configured on the default class {item.name}\n")


@actions.add(
    "pmap-c-network-qos",
    "congestion-control (ecn|tail-drop|random-detect [ecn])",
    "no congestion-control",
    families=("n9k",),
)
@actions.add(
    "pmap-c-network-qos",
    "set cos <value:0-7>",
    "no set cos [<value:0-7>]",
    "multicast-optimize",
    "no multicast-optimize",
    families=("n5k",),
)
def network_setting(context: Context, match: Match) -> None:
    _, item = _target(context, "network-qos")
    _apply(item, Action(match.line.split()[0], match.line), negated=match.negated)
