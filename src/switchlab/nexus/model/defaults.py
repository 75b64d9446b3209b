"""The factory configuration: interfaces, and the built-in classes and policies of each platform."""

from __future__ import annotations

from switchlab.nexus.model.config import (
    Action,
    ClassMap,
    Config,
    Criterion,
    Interface,
    PolicyClass,
    PolicyMap,
    QosKind,
)
from switchlab.nexus.model.platform import Platform


def factory_config(platform: Platform) -> Config:
    config = Config(platform, features=set(platform.features))
    for name in (*platform.port_names, "mgmt0"):
        config.interfaces[name] = Interface(name)
    if platform.family == "n5k":
        _add_n5k_policies(config)
    else:
        _add_n9k_policies(config)
    return config


def _add_class(config: Config, kind: QosKind, name: str, group: int | None) -> None:
    criteria = [] if group is None else [Criterion("qos-group", f"match qos-group {group}", (group,))]
    config.class_maps[kind, name] = ClassMap(kind, name, "match-any", criteria, builtin=True)


def _add_policy(config: Config, kind: QosKind, name: str, classes: dict[str, Action]) -> None:
    items = {label: PolicyClass(label, {action.key: action}) for label, action in classes.items()}
    config.policy_maps[kind, name] = PolicyMap(kind, name, items, builtin=True)


def bandwidth(percent: int) -> Action:
    line = f"bandwidth remaining percent {percent}"
    return Action("bandwidth", line, {"remaining": 1, "percent": percent})


def _add_n9k_policies(config: Config) -> None:
    """Add `c-8q-nqN` and `c-out-8q-qN` where there are eight queues, `c-nqN` and `c-out-qN` where there are four."""
    queues = config.platform.queues
    mark = "8q-" if queues == 8 else ""
    _add_class(config, "qos", "class-default", None)
    names = {group: f"q{group}" if group else "q-default" for group in reversed(range(queues))}
    for group, name in names.items():
        _add_class(config, "network-qos", f"c-{mark}n{name}", group)
        _add_class(config, "queuing", f"c-out-{mark}{name}", group)
        _add_class(config, "queuing", f"c-in-{name}", group)
    mtu = Action("mtu", "mtu 1500", {"mtu": 1500})
    _add_policy(config, "network-qos", f"default-{mark}nq-policy", {f"c-{mark}n{name}": mtu for name in names.values()})
    strict = Action("priority", "priority level 1", {"level": 1})
    actions = {
        f"c-out-{mark}{name}": strict if group == queues - 1 else bandwidth(0 if group else 100)
        for group, name in names.items()
    }
    _add_policy(config, "queuing", f"default-{mark}out-policy", actions)
    config.default_policies = {
        ("network-qos", ""): f"default-{mark}nq-policy",
        ("queuing", "output"): f"default-{mark}out-policy",
    }


def _add_n5k_policies(config: Config) -> None:
    """Add the single class-default; every other class of a Nexus 5000 is the user's own."""
    _add_class(config, "qos", "class-default", None)
    _add_class(config, "network-qos", "class-default", 0)
    _add_class(config, "queuing", "class-default", 0)
    mtu = Action("mtu", "mtu 1500", {"mtu": 1500})
    share = Action("bandwidth", "bandwidth percent 100", {"percent": 100})
    group = Action("set", "set qos-group 0", {"group": 0})
    _add_policy(config, "network-qos", "default-nq-policy", {"class-default": mtu})
    _add_policy(config, "queuing", "default-out-policy", {"class-default": share})
    _add_policy(config, "queuing", "default-in-policy", {"class-default": share})
    _add_policy(config, "qos", "default-in-policy", {"class-default": group})
    _add_fcoe_policies(config)
    config.default_policies = {
        ("network-qos", ""): "default-nq-policy",
        ("queuing", "output"): "default-out-policy",
        ("queuing", "input"): "default-in-policy",
        ("qos", "input"): "default-in-policy",
    }


def _add_fcoe_policies(config: Config) -> None:
    """Add the class of Fibre Channel over Ethernet, and the policies that a site with it puts in force."""
    kinds: tuple[QosKind, ...] = ("network-qos", "queuing")
    for kind in kinds:
        _add_class(config, kind, "class-fcoe", 1)
    half = Action("bandwidth", "bandwidth percent 50", {"percent": 50})
    mtus = {name: Action("mtu", f"mtu {size}", {"mtu": size}) for name, size in (("fcoe", 2158), ("default", 1500))}
    classes = {f"class-{name}": action for name, action in mtus.items()}
    _add_policy(config, "network-qos", "fcoe-default-nq-policy", classes)
    config.policy_maps["network-qos", "fcoe-default-nq-policy"].classes["class-fcoe"].actions["pause"] = Action(
        "pause", "pause no-drop", {"cos": 1}
    )
    _add_policy(config, "queuing", "fcoe-default-out-policy", {"class-fcoe": half, "class-default": half})
