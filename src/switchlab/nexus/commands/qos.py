"""Class-maps, policy-maps and `system qos`."""

from __future__ import annotations

from switchlab.nexus.cli.commandset import CommandSet, Match
from switchlab.nexus.cli.context import Context, Mode
from switchlab.nexus.model.config import (
    QOS_KINDS,
    ClassMap,
    Config,
    Criterion,
    PolicyClass,
    PolicyMap,
    QosKind,
    Rejected,
)

qos = CommandSet()
CLASS_MAP_PROMPTS = {"qos": "config-cmap-qos", "queuing": "config-cmap-que", "network-qos": "config-cmap-nqos"}
POLICY_MAP_PROMPTS = {"qos": "config-pmap-qos", "queuing": "config-pmap-que", "network-qos": "config-pmap-nqos"}
CLASS_PROMPTS = {"qos": "config-pmap-c-qos", "queuing": "config-pmap-c-que", "network-qos": "config-pmap-nqos-c"}


def kind_of(match: Match) -> QosKind:
    """Return the type that a command names; without `type` it is qos."""
    words = match.keywords
    named = words[words.index("type") + 1] if "type" in words else "qos"
    return next(kind for kind in QOS_KINDS if kind == named)


# Class-maps


@qos.add(
    "config",
    "class-map [type qos] [match-any|match-all] <name>",
    "class-map type queuing [match-any] <name>",
    "class-map type network-qos [match-any] <name>",
)
def class_map(context: Context, match: Match) -> None:
    kind, name = kind_of(match), match.text("name")
    existing = context.config.class_maps.get((kind, name))
    if existing is not None and existing.builtin:
        raise Rejected(f"ERROR: Class-map {name} is system-defined and cannot be modified\n")
    if kind != "qos" and context.config.platform.family == "n9k":
        raise Rejected(f"ERROR: User-defined class-maps of type {kind} are not supported on this platform\n")
    mode = next((word for word in match.keywords if word in ("match-any", "match-all")), None)
    if existing is None:
        default = "match-all" if kind == "qos" else "match-any"
        context.config.class_maps[kind, name] = ClassMap(kind, name, mode or default)
    elif mode and mode != existing.mode:
        raise Rejected(f"ERROR: Class-map {name} already exists with {existing.mode}\n")
    context.enter(Mode(f"cmap-{kind}", CLASS_MAP_PROMPTS[kind], (name,)))


@qos.add(
    "config",
    "no class-map [type qos] [match-any|match-all] <name>",
    "no class-map type queuing [match-any] <name>",
    "no class-map type network-qos [match-any] <name>",
)
def no_class_map(context: Context, match: Match) -> None:
    kind, name = kind_of(match), match.text("name")
    existing = context.config.class_maps.get((kind, name))
    if existing is None:
        raise Rejected(f"ERROR: Class-map {name} of type {kind} does not exist\n")
    if existing.builtin:
        raise Rejected(f"ERROR: Class-map {name} is system-defined and cannot be deleted\n")
    users = context.config.users_of_class(kind, name)
    if users:
        raise Rejected(f"ERROR: Class-map {name} is in use by policy-map {users[0]}, cannot be deleted\n")
    del context.config.class_maps[kind, name]


@qos.add("cmap-qos", "[no] match dscp <values:dscp>", "[no] match ip dscp <values:dscp>")
@qos.add("cmap-qos", "[no] match cos <values:*0-7>", "[no] match precedence <values:*0-7>")
@qos.add("cmap-qos", "[no] match access-group name <acl:long>")
def match_qos(context: Context, match: Match) -> None:
    words = match.line.replace("match ip ", "match ").split(" ")
    _change_criterion(
        context, "qos", Criterion(words[1], " ".join(words), match.numbers("values")), remove=match.negated
    )


@qos.add("cmap-queuing", "[no] match qos-group <values:*0-7>")
def match_queuing(context: Context, match: Match) -> None:
    _change_criterion(
        context, "queuing", Criterion("qos-group", match.line, match.numbers("values")), remove=match.negated
    )


@qos.add("cmap-network-qos", "[no] match qos-group <values:*0-7>")
def match_network_qos(context: Context, match: Match) -> None:
    criterion = Criterion("qos-group", match.line, match.numbers("values"))
    _change_criterion(context, "network-qos", criterion, remove=match.negated)


def _change_criterion(context: Context, kind: QosKind, criterion: Criterion, *, remove: bool) -> None:
    item = context.config.class_maps.get((kind, context.mode.keys[0]))
    if item is None:
        raise Rejected("ERROR: Class-map does not exist\n")
    top = context.config.platform.queues
    if criterion.field == "qos-group" and any(value >= top for value in criterion.values):
        raise Rejected(f"ERROR: qos-group is out of range (0-{top - 1})\n")
    if remove and criterion not in item.criteria:
        raise Rejected(f"ERROR: Match criteria not found in class-map {item.name}\n")
    if remove:
        item.criteria.remove(criterion)
    elif criterion not in item.criteria:
        if criterion.field == "qos-group" and item.criteria:
            raise Rejected(f"ERROR: Class-map {item.name} already has a match on qos-group\n")
        item.criteria.append(criterion)


# Policy-maps


@qos.add("config", *(f"policy-map type {kind} <name>" for kind in QOS_KINDS), "policy-map <name>")
def policy_map(context: Context, match: Match) -> None:
    kind, name = kind_of(match), match.text("name")
    existing = context.config.policy_maps.setdefault((kind, name), PolicyMap(kind, name))
    if existing.builtin:
        raise Rejected(f"ERROR: Policy-map {name} is system-defined and cannot be modified\n")
    context.enter(Mode(f"pmap-{kind}", POLICY_MAP_PROMPTS[kind], (name,)))


@qos.add("config", *(f"no policy-map type {kind} <name>" for kind in QOS_KINDS), "no policy-map <name>")
def no_policy_map(context: Context, match: Match) -> None:
    kind, name = kind_of(match), match.text("name")
    policy = context.config.policy_maps.get((kind, name))
    if policy is None:
        raise Rejected(f"ERROR: Policy-map {name} of type {kind} does not exist\n")
    if policy.builtin:
        raise Rejected(f"ERROR: Policy-map {name} is system-defined and cannot be deleted\n")
    user = next(context.config.users_of_policy(kind, name), None)
    if user is not None:
        raise Rejected(f"ERROR: Policy-map {name} is in use by {user}, cannot be deleted\n")
    del context.config.policy_maps[kind, name]


def policy_in(context: Context, kind: QosKind) -> PolicyMap:
    policy = context.config.policy_maps.get((kind, context.mode.keys[0]))
    if policy is None:
        raise Rejected("ERROR: Policy-map does not exist\n")
    return policy


def _enter_class(context: Context, match: Match, kind: QosKind) -> None:
    policy, name = policy_in(context, kind), match.text("class")
    if (kind, name) not in context.config.class_maps:
        raise Rejected(f"ERROR: Class-map {name} of type {kind} does not exist\n")
    policy.classes.setdefault(name, PolicyClass(name))
    if kind == "qos" and "class-default" in policy.classes:
        policy.classes["class-default"] = policy.classes.pop("class-default")  # it matches everything: always last
    context.enter(Mode(f"pmap-c-{kind}", CLASS_PROMPTS[kind], (policy.name, name)))


def _remove_class(context: Context, match: Match, kind: QosKind) -> None:
    policy, name = policy_in(context, kind), match.text("class")
    if name not in policy.classes:
        raise Rejected(f"ERROR: Class {name} is not in policy-map {policy.name}\n")
    del policy.classes[name]


@qos.add("pmap-qos", "[no] class [type qos] <class:name>")
def qos_class(context: Context, match: Match) -> None:
    (_remove_class if match.negated else _enter_class)(context, match, "qos")


@qos.add("pmap-queuing", "[no] class type queuing <class:name>")
def queuing_class(context: Context, match: Match) -> None:
    (_remove_class if match.negated else _enter_class)(context, match, "queuing")


@qos.add("pmap-network-qos", "[no] class type network-qos <class:name>")
def network_qos_class(context: Context, match: Match) -> None:
    (_remove_class if match.negated else _enter_class)(context, match, "network-qos")


# System


@qos.add("config", "system qos")
def system_qos(context: Context, _: Match) -> None:
    context.enter(Mode("system-qos", "config-sys-qos"))


@qos.add(
    "system-qos",
    "service-policy type queuing (input|output) <policy:name>",
    "service-policy type network-qos <policy:name>",
    "no service-policy type queuing (input|output) [<policy:name>]",
    "no service-policy type network-qos [<policy:name>]",
)
@qos.add("system-qos", "service-policy type qos input <policy:name>", families=("n5k",))
@qos.add("system-qos", "no service-policy type qos input [<policy:name>]", families=("n5k",))
def system_policy(context: Context, match: Match) -> None:
    kind = kind_of(match)
    direction = "" if kind == "network-qos" else "input" if "input" in match.keywords else "output"
    where = kind, direction
    attached = context.config.system_policies.get(where)
    name = str(match.values.get("policy", ""))
    if match.negated:
        if attached is None or (name and name != attached):
            raise Rejected(f"ERROR: Policy-map {name or 'of this type'} is not attached to system qos\n")
        del context.config.system_policies[where]
        return
    _check_system_policy(context.config, kind, name)
    if name == context.config.default_policies.get(where):
        context.config.system_policies.pop(where, None)
    else:
        context.config.system_policies[where] = name


def _check_system_policy(config: Config, kind: QosKind, name: str) -> None:
    policy = config.policy_maps.get((kind, name))
    if policy is None:
        raise Rejected(f"ERROR: Policy-map {name} of type {kind} does not exist\n")
    if not policy.classes:
        raise Rejected(f"ERROR: Policy-map {name} has no classes\n")
