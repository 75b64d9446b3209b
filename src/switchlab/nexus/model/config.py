"""The configuration of a switch as data: what was configured, and what is in force because of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from switchlab.nexus.model.platform import Platform

QosKind = Literal["qos", "queuing", "network-qos"]
QOS_KINDS: tuple[QosKind, ...] = ("qos", "queuing", "network-qos")
Attachment = tuple[str, str]  # kind and direction: ("queuing", "output"); network-qos has no direction


class Rejected(Exception):
    """A command that parses but that the switch refuses; the text is what the switch prints."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One `match` line of a class-map."""

    field: str
    line: str
    values: tuple[int, ...] = ()


@dataclass(slots=True)
class ClassMap:
    kind: QosKind
    name: str
    mode: str = "match-all"
    criteria: list[Criterion] = field(default_factory=list)
    builtin: bool = False

    @property
    def groups(self) -> tuple[int, ...]:
        """The QoS groups that a queuing or network-qos class stands for."""
        return tuple(value for item in self.criteria if item.field == "qos-group" for value in item.values)


@dataclass(frozen=True, slots=True)
class Action:
    """One line inside a policy's class, which has at most one per key."""

    key: str
    line: str
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class PolicyClass:
    name: str
    actions: dict[str, Action] = field(default_factory=dict)

    def value(self, key: str, name: str) -> int | None:
        action = self.actions.get(key)
        return None if action is None else action.values.get(name)


@dataclass(slots=True)
class PolicyMap:
    kind: QosKind
    name: str
    classes: dict[str, PolicyClass] = field(default_factory=dict)
    builtin: bool = False


@dataclass(slots=True)
class Interface:
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    policies: dict[Attachment, str] = field(default_factory=dict)
    no_stats: set[Attachment] = field(default_factory=set)

    @property
    def kind(self) -> str:
        return self.name.rstrip("0123456789/").lower()

    @property
    def number(self) -> int:
        """The last number of the name: 7 for Ethernet1/7."""
        return numbers_in(self.name)[-1]

    @property
    def short_name(self) -> str:
        """The name as tables print it: Eth1/1, Po10."""
        for full, short in (("Ethernet", "Eth"), ("port-channel", "Po"), ("loopback", "Lo")):
            if self.name.startswith(full):
                return short + self.name.removeprefix(full)
        return self.name

    @property
    def routed(self) -> bool:
        return self.kind in ("mgmt", "vlan", "loopback") or self.settings.get("switchport") == "no switchport"

    @property
    def shut(self) -> bool:
        return self.settings.get("shutdown", "shutdown" if self.kind == "vlan" else "") == "shutdown"

    @property
    def mtu(self) -> int:
        return int(self.settings.get("mtu", "mtu 1500").split()[-1])

    @property
    def port_mode(self) -> str:
        return "routed" if self.routed else self.settings.get("switchport mode", "switchport mode access").split()[-1]

    @property
    def access_vlan(self) -> int:
        return int(self.settings.get("switchport access vlan", "1").split()[-1])

    @property
    def description(self) -> str:
        return self.settings.get("description", "").removeprefix("description ")

    @property
    def channel(self) -> str | None:
        """The port-channel that the port is a member of."""
        words = self.settings.get("channel-group", "").split()
        return f"port-channel{words[1]}" if words else None

    @property
    def pfc_mode(self) -> str:
        return self.settings.get("priority-flow-control mode", "auto").split()[-1]


def numbers_in(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", name)]


def interface_order(name: str) -> tuple[int, list[int]]:
    """Sort as NX-OS lists interfaces: by kind, then by number."""
    kinds = ("Vlan", "port-channel", "Ethernet", "mgmt", "loopback")
    rank = next((index for index, kind in enumerate(kinds) if name.startswith(kind)), len(kinds))
    return rank, numbers_in(name)


@dataclass(slots=True)
class Config:
    platform: Platform
    settings: dict[str, str] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)
    vlans: dict[int, dict[str, str]] = field(default_factory=lambda: {1: {}})
    class_maps: dict[tuple[QosKind, str], ClassMap] = field(default_factory=dict)
    policy_maps: dict[tuple[QosKind, str], PolicyMap] = field(default_factory=dict)
    system_policies: dict[Attachment, str] = field(default_factory=dict)
    default_policies: dict[Attachment, str] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)

    @property
    def hostname(self) -> str:
        return self.settings.get("hostname", "hostname switch").removeprefix("hostname ")

    @property
    def jumbo_mtu(self) -> int:
        return int(self.settings.get("system jumbomtu", "9216").split()[-1])

    def ordered_interfaces(self) -> list[Interface]:
        return [self.interfaces[name] for name in sorted(self.interfaces, key=interface_order)]

    def system_policy(self, attachment: Attachment) -> PolicyMap | None:
        """The policy in force on the whole switch: the configured one, or the built-in default."""
        name = self.system_policies.get(attachment) or self.default_policies.get(attachment)
        return None if name is None else self.policy_maps.get(_key(attachment, name))

    def governing(self, interface: str) -> Interface | None:
        """The interface whose settings a port obeys: its port-channel if it is a member of one, otherwise itself."""
        port = self.interfaces.get(interface)
        return self.interfaces.get(port.channel, port) if port and port.channel else port

    def physical_ports(self, interface: str) -> list[str]:
        """The members of a port-channel; of any other interface itself."""
        members = [item.name for item in self.interfaces.values() if item.channel == interface]
        return members if interface.startswith("port-channel") else [interface]

    def policy_on(self, interface: str, attachment: Attachment) -> PolicyMap | None:
        """The policy in force on an interface: its own, or else the system's."""
        port = self.governing(interface)
        if port is not None and attachment in port.policies:
            return self.policy_maps.get(_key(attachment, port.policies[attachment]))
        return self.system_policy(attachment)

    def users_of_policy(self, kind: QosKind, name: str) -> Iterator[str]:
        """Yield where a policy is attached."""
        if any(attached == name and at[0] == kind for at, attached in self.system_policies.items()):
            yield "system qos"
        for interface in self.ordered_interfaces():
            if any(attached == name and at[0] == kind for at, attached in interface.policies.items()):
                yield interface.name

    def users_of_class(self, kind: QosKind, name: str) -> list[str]:
        """Return the policies that contain a class."""
        return [policy.name for policy in self.policy_maps.values() if policy.kind == kind and name in policy.classes]

    def pause_classes(self) -> dict[int, int]:
        """Return the no-drop classes in force: the priority that is paused, and its QoS group."""
        policy = self.system_policy(("network-qos", ""))
        paused: dict[int, int] = {}
        for item in policy.classes.values() if policy else ():
            cos = item.value("pause", "cos")
            groups = self.class_maps[("network-qos", item.name)].groups
            if cos is not None and groups:
                paused[cos] = groups[0]
        return paused

    def class_of_group(self, policy: PolicyMap | None, group: int) -> PolicyClass | None:
        """Return the class of a queuing or network-qos policy that handles a QoS group."""
        for item in policy.classes.values() if policy else ():
            if policy and group in self.class_maps[(policy.kind, item.name)].groups:
                return item
        return None

    def mtu_on(self, port: str, group: int) -> int:
        """The largest packet on a port: the port's own MTU on a Nexus 9000, that of the class on a Nexus 5000."""
        if self.platform.family == "n9k":
            interface = self.governing(port)
            return interface.mtu if interface else self.jumbo_mtu
        item = self.class_of_group(self.system_policy(("network-qos", "")), group)
        return (item.value("mtu", "mtu") if item else None) or 1500


def _key(attachment: Attachment, name: str) -> tuple[QosKind, str]:
    return next(kind for kind in QOS_KINDS if kind == attachment[0]), name
