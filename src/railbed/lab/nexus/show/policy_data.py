"""Class-maps and policy-maps as data, with the keys that Cisco's reference of the 9.3 show commands lists."""

from __future__ import annotations

from collections.abc import Iterable

from railbed.lab.nexus.model.config import Action, ClassMap, PolicyClass, PolicyMap
from railbed.lab.nexus.model.render import compress
from railbed.lab.nexus.model.switch import Switch
from railbed.lab.nexus.show.layout import Row, table
from railbed.lab.nexus.show.pfc import PAUSE_BUFFER

CRITERION_KEYS = {
    "dscp": "dscp-list",
    "cos": "cos-list",
    "precedence": "precedence-list",
    "qos-group": "qos-group-list",
}


def class_map_data(items: Iterable[ClassMap]) -> Row:
    return table("cmap", (_class_row(item) for item in items))


def _class_row(item: ClassMap) -> Row:
    if item.kind == "network-qos":
        groups = {"nq-qos-group-list": compress(set(item.groups))} if item.groups else {}
        return {"nq-cmap-key": item.name, "xqos-or-q": item.kind, "nq-cmap-name": item.name, **groups}
    matches: list[Row] = []
    for number, criterion in enumerate(item.criteria, 1):
        key = CRITERION_KEYS.get(criterion.field, "match-acl-name")
        value = compress(set(criterion.values)) if criterion.values else criterion.line.split()[-1]
        matches.append({"match-key": number, key: value})
    row: Row = {"cmap-key": item.name, "xqos-or-q": item.kind, "any_or_all": item.mode, "cmap-name-out": item.name}
    return row | table("match", matches)


def policy_map_data(switch: Switch, items: Iterable[PolicyMap]) -> Row:
    """Return what `show policy-map` prints; network-qos policies have a table of their own."""
    policies = list(items)
    rows: list[Row] = []
    for policy in policies:
        if policy.kind != "network-qos":
            classes = [
                {"cmap-key": item.name, "xqos-or-q": policy.kind, **_class_data(item)}
                for item in policy.classes.values()
            ]
            row: Row = {"pmap-key": policy.name, "yqos-or-q": policy.kind, "pmap-name-out": policy.name}
            rows.append(row | table("cmap", classes))
    return _network_data(switch, policies, "action") | table("pmap", rows)


def system_policy_data(switch: Switch, network: PolicyMap | None, attached: Iterable[tuple[str, PolicyMap]]) -> Row:
    """Return what `show policy-map system` prints; `attached` are directions and policies."""
    rows: list[Row] = []
    for direction, policy in attached:
        classes: list[Row] = []
        for item in policy.classes.values():
            mode = switch.running.class_maps[policy.kind, item.name].mode
            classes.append({"cmap-key": item.name, "xqos-or-q": policy.kind, "match-opts": mode, **_class_data(item)})
        row: Row = {"pmap-key": policy.name, "in-or-out": direction, "yqos-or-q": policy.kind, "pmap-name": policy.name}
        rows.append(row | table("cmap", classes))
    return _network_data(switch, [network] if network else [], "xaction") | table("pmap", rows)


def _network_data(switch: Switch, policies: Iterable[PolicyMap], action_table: str) -> Row:
    rows: list[Row] = []
    for policy in policies:
        if policy.kind == "network-qos":
            classes = [_network_class(switch, item, action_table) for item in policy.classes.values()]
            rows.append({"xpmap-name": policy.name, **table("xcmap", classes)})
    return table("xpmap", rows)


def _network_class(switch: Switch, item: PolicyClass, action_table: str) -> Row:
    groups = switch.running.class_maps["network-qos", item.name].groups
    actions: list[Row] = [{"qos-group-list": compress(set(groups))}] if groups else []
    for action in item.actions.values():
        if action.key == "mtu":
            actions.append({"mtu": action.values["mtu"]})
        elif action.key == "pause":
            size, pause, resume = PAUSE_BUFFER
            buffers: Row = {"size-in-bytes": size, "xoff-bytes": pause, "xon-bytes": resume}
            actions.append({"pause": "pause", **buffers, "pfc-cos-list": action.values["cos"]})
    numbered = [{f"{action_table}-key": number, **action} for number, action in enumerate(actions, 1)]
    return {"xcmap-name": item.name, **table(action_table, numbered)}


def _class_data(item: PolicyClass) -> Row:
    actions = [{"action-key": number, **_action_row(action)} for number, action in enumerate(item.actions.values(), 1)]
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
