"""Class-maps and policy-maps as data, with the keys that Cisco's reference of the 9.3 show commands lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from switchlab.nexus.model.config import Action, ClassMap, PolicyClass, PolicyMap, QosKind
from switchlab.nexus.model.counters import Queue
from switchlab.nexus.model.render import compress
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.layout import Row, table
from switchlab.nexus.show.pfc import PAUSE_BUFFER

CRITERION_KEYS = {
    "dscp": "dscp-list",
    "cos": "cos-list",
    "precedence": "precedence-list",
    "qos-group": "qos-group-list",
}


def class_map_data(items: Iterable[ClassMap], kind: QosKind | None) -> Row:
    """Return what `show class-map` prints; network-qos classes have other keys when only they are asked for."""
    return table(
        "cmap", (_network_row(item, kind) if item.kind == "network-qos" else _class_row(item) for item in items)
    )


def _network_row(item: ClassMap, kind: QosKind | None) -> Row:
    groups = compress(set(item.groups))
    if kind == "network-qos":
        return {"cmap-key": item.name, "xcmap-name": item.name, "qos-group-list": groups}
    return {"nq-cmap-key": item.name, "xqos-or-q": item.kind, "nq-cmap-name": item.name, "nq-qos-group-list": groups}


def _class_row(item: ClassMap) -> Row:
    matches: list[Row] = []
    for number, criterion in enumerate(item.criteria, 1):
        key = CRITERION_KEYS.get(criterion.field, "match-acl-name")
        value = compress(set(criterion.values)) if criterion.values else criterion.line.split()[-1]
        matches.append({"match-key": number, key: value})
    row: Row = {"cmap-key": item.name, "xqos-or-q": item.kind, "any_or_all": item.mode, "cmap-name-out": item.name}
    return row | table("match", matches)


def policy_map_data(switch: Switch, items: Iterable[PolicyMap], kind: QosKind | None) -> Row:
    """Return what `show policy-map` prints; network-qos policies have other keys when only they are asked for."""
    policies = list(items)
    if kind == "network-qos":
        return _network_data(switch, policies, "action")
    return table("pmap", (_policy_row(switch, policy) for policy in policies))


def _policy_row(switch: Switch, policy: PolicyMap) -> Row:
    classes: list[Row] = []
    for item in policy.classes.values():
        key: Row = {"cmap-key": item.name, "xqos-or-q": policy.kind}
        if policy.kind == "network-qos":
            actions = _number("nq-action-key", _network_actions(switch, item))
            classes.append(key | {"nq-xcmap-name": item.name, **table("action", actions)})
        else:
            classes.append(key | _class_data(item))
    name: Row = {"nq-xpmap-name": policy.name} if policy.kind == "network-qos" else {"pmap-name-out": policy.name}
    return {"pmap-key": policy.name, "yqos-or-q": policy.kind, **name, **table("cmap", classes)}


def system_policy_data(switch: Switch, network: PolicyMap | None, attached: Iterable[tuple[str, PolicyMap]]) -> Row:
    """Return what `show policy-map system` prints; `attached` are directions and policies."""
    rows = (_attached_row(switch, direction, policy) for direction, policy in attached)
    return _network_data(switch, [network] if network else [], "xaction") | table("pmap", rows)


def interface_policy_data(switch: Switch, attached: Mapping[str, Iterable[tuple[str, PolicyMap]]]) -> Row:
    """Return what `show policy-map interface` prints; `attached` are directions and policies by port."""
    rows = (
        {
            "if-name-str": port,
            **table("pmap", (_attached_row(switch, direction, item, port) for direction, item in items)),
        }
        for port, items in attached.items()
    )
    return {"glb-stats-status": "enabled", **table("interface", rows)}


def _attached_row(switch: Switch, direction: str, policy: PolicyMap, port: str | None = None) -> Row:
    """Return a policy where it is attached; on a port, queuing classes have the counters of their queues."""
    classes: list[Row] = []
    for item in policy.classes.values():
        class_map = switch.running.class_maps[policy.kind, item.name]
        row: Row = {"cmap-key": item.name, "xqos-or-q": policy.kind, "match-opts": class_map.mode, **_class_data(item)}
        if port is not None and policy.kind == "queuing":
            queue = queue_of(switch, class_map, port)
            row |= {"queue-drop-pkts": queue.drop_packets, "queue-depth-bytes": queue.depth_bytes}
        classes.append(row)
    key: Row = {"pmap-key": policy.name, "in-or-out": direction, "yqos-or-q": policy.kind, "pmap-name": policy.name}
    return key | table("cmap", classes)


def queue_of(switch: Switch, class_map: ClassMap, port: str) -> Queue:
    """Return the counters of the queue that a queuing class stands for on a port."""
    return switch.ports[port].queues.get(class_map.groups[0] if class_map.groups else -1, Queue())


def _network_data(switch: Switch, policies: Iterable[PolicyMap], action_table: str) -> Row:
    rows: list[Row] = []
    for policy in policies:
        classes: list[Row] = []
        for item in policy.classes.values():
            actions = _number(f"{action_table}-key", _network_actions(switch, item))
            classes.append({"xcmap-name": item.name, **table(action_table, actions)})
        rows.append({"xpmap-name": policy.name, **table("xcmap", classes)})
    return table("xpmap", rows)


def _network_actions(switch: Switch, item: PolicyClass) -> list[Row]:
    groups = switch.running.class_maps["network-qos", item.name].groups
    actions: list[Row] = [{"qos-group-list": compress(set(groups))}] if groups else []
    for action in item.actions.values():
        if action.key == "mtu":
            actions.append({"mtu": action.values["mtu"]})
        elif action.key == "pause":
            size, pause, resume = PAUSE_BUFFER
            buffers: Row = {"size-in-bytes": size, "xoff-bytes": pause, "xon-bytes": resume}
            actions.append({"pause": "pause", **buffers, "pfc-cos-list": action.values["cos"]})
    return actions


def _number(key: str, actions: Iterable[Row]) -> list[Row]:
    return [{key: number, **action} for number, action in enumerate(actions, 1)]


def _class_data(item: PolicyClass) -> Row:
    actions = _number("action-key", (_action_row(action) for action in item.actions.values()))
    return {"cmap-name": item.name, **table("action", actions)}


def _action_row(action: Action) -> Row:
    values = action.values
    if action.key == "set":
        return {"qos-group": values["group"]}
    if action.key == "priority":
        return {"prio-level": values["level"]}
    if action.key == "bandwidth":
        prefix = "rem-bw" if values.get("remaining") else "bw"
        return {f"{prefix}-units": "percent", f"{prefix}-rate": values["percent"]}
    if action.key == "pause":
        return {
            "pause": "pause",
            "size-in-bytes": values["size"],
            "xoff-bytes": values["pause"],
            "xon-bytes": values["resume"],
        }
    if action.key == "random-detect":
        return _wred_row(action)
    return {}


def _wred_row(action: Action) -> Row:
    row: Row = {"rdet-mode": "random-detect", **({"rdet-ecn": "ecn"} if action.values["ecn"] else {})}
    words = action.line.split()
    if "minimum-threshold" not in words:
        return row
    entry: Row = {"rdet-key": 1, "rdet-size-units": words[words.index("minimum-threshold") + 2]}
    for key, word in (
        ("min-thresh", "minimum-threshold"),
        ("max-thresh", "maximum-threshold"),
        ("drop-prob", "drop-probability"),
        ("weight", "weight"),
    ):
        if word in words:
            entry[f"rdet-{key}"] = int(words[words.index(word) + 1])
    return row | table("rdet", [entry])
