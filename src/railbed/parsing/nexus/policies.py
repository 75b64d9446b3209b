"""Policies as `show policy-map [system | interface]` prints them: as text, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from railbed.parsing.lines import Lines
from railbed.parsing.nexus.answer import content, count, port_name, require, rows, value_of
from railbed.parsing.nexus.qos import (
    POLICY_CLASS,
    POLICY_MAP,
    PolicyClass,
    PolicyMap,
    Wred,
    class_of,
    is_setting,
    kilobytes,
    numbers,
    policy_type,
)
from railbed.parsing.text import Fields

SERVICE_POLICY = re.compile(r"Service-policy \((?P<type>[a-z-]+)\)\s+(?P<direction>input|output):\s+(?P<name>\S+)")
CLASS_IN_SERVICE = re.compile(r"Class-map \((?P<type>[a-z-]+)\):\s+(?P<name>\S+)(?: \(match-\w+\))?")
PORT = re.compile(r"(?:Ethernet|port-channel|Vlan|ii|mgmt)\d[\d/.]*", re.IGNORECASE)
HEADING = re.compile(r"Type [a-z-]+ policy-maps")
NOT_SETTINGS = ("SNMP Policy Index", "Match:", "match ", "queue ", "Aggregate ", "Description:", "Global statistics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A policy and where it is in force."""

    port: str = ""
    """Empty for the system."""
    direction: str = ""
    """`input` or `output`; empty for network-qos, and for a policy that is only listed."""
    policy: PolicyMap


@dataclass(slots=True)
class _Open:
    """A policy whose classes are still being read."""

    port: str
    direction: str
    policy: PolicyMap
    classes: list[tuple[str, list[str]]] = field(default_factory=list)

    def close(self, lines: Lines) -> Attachment:
        classes = tuple(class_of(name, settings, lines) for name, settings in self.classes)
        return Attachment(port=self.port, direction=self.direction, policy=replace(self.policy, classes=classes))


def attachments_of_text(lines: Lines) -> list[Attachment]:
    """Return the policies of a text, in its order."""
    policies: list[_Open] = []
    port = ""
    for line in content(lines):
        words = " ".join(line.split())
        if PORT.fullmatch(words):
            port = port_name(words)
        elif opened := _open(words, port):
            policies.append(opened)
        elif HEADING.fullmatch(words) or words.startswith(NOT_SETTINGS):
            continue
        elif policies and (name := _class_name(words)):
            policies[-1].classes.append((name, []))
        elif policies and policies[-1].classes and is_setting(words):
            policies[-1].classes[-1][1].append(words)
        else:
            lines.unknown(line)
    return [policy.close(lines) for policy in policies]


def _open(words: str, port: str) -> _Open | None:
    match = POLICY_MAP.fullmatch(words)
    if match:
        return _Open(port, "", PolicyMap(type=policy_type(match["type"]), name=match["name"]))
    match = SERVICE_POLICY.fullmatch(words)
    if match:
        return _Open(port, match["direction"], PolicyMap(type=policy_type(match["type"]), name=match["name"]))
    return None


def _class_name(words: str) -> str:
    match = CLASS_IN_SERVICE.fullmatch(words) or POLICY_CLASS.fullmatch(words)
    return match["name"] if match else ""


def attachments_of_json(fields: Fields) -> list[Attachment]:
    """Return the policies of an object, network-qos first."""
    network = [
        Attachment(
            policy=PolicyMap(
                type="network-qos",
                name=require(row, "xpmap-name"),
                classes=tuple(_class(item, "xcmap-name", ("xaction", "action")) for item in rows(row, "xcmap")),
            )
        )
        for row in rows(fields, "xpmap")
    ]
    return [*network, *(_attachment(row) for row in rows(fields, "pmap"))]


def _attachment(row: Fields) -> Attachment:
    kind = policy_type(value_of(row, "yqos-or-q"))
    name = next(filter(None, (value_of(row, key) for key in ("pmap-name", "pmap-name-out", "nq-xpmap-name"))), None)
    classes = tuple(
        _class(item, "nq-xcmap-name" if kind == "network-qos" else "cmap-name", ("action",))
        for item in rows(row, "cmap")
    )
    policy = PolicyMap(type=kind, name=name or require(row, "pmap-key"), classes=classes)
    return Attachment(direction=value_of(row, "in-or-out") or "", policy=policy)


def _class(row: Fields, key: str, tables: tuple[str, ...]) -> PolicyClass:
    settings = PolicyClass(name=value_of(row, key) or require(row, "cmap-key"))
    for action in (action for table in tables for action in rows(row, table)):
        settings = _with_action(settings, action)
    return settings


def _with_action(settings: PolicyClass, action: Fields) -> PolicyClass:
    pause = value_of(action, "pfc-cos-list")
    bandwidth = [value for key in ("bw-rate", "rem-bw-rate") if (value := count(action, key)) is not None]
    changes: dict[str, object] = {
        "qos_group": count(action, "qos-group"),
        "mtu": count(action, "mtu"),
        "pause": numbers(pause) if pause else None,
        "no_drop": True if "pause" in action and not pause and "size-in-bytes" not in action else None,
        "bandwidth": bandwidth[0] if bandwidth else None,
        "priority": count(action, "prio-level"),
        "wred": _wred(action) if "rdet-mode" in action else None,
    }
    return replace(settings, **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type]


def _wred(action: Fields) -> Wred:
    entries = rows(action, "rdet")
    entry = entries[0] if entries else Fields({})
    unit = value_of(entry, "rdet-size-units")
    return Wred(
        low_kbytes=kilobytes(value_of(entry, "rdet-min-thresh"), unit),
        high_kbytes=kilobytes(value_of(entry, "rdet-max-thresh"), unit),
        probability=count(entry, "rdet-drop-prob"),
        weight=count(entry, "rdet-weight"),
        ecn=value_of(action, "rdet-ecn") is not None,
    )


def configured_policy(head: re.Match[str], below: Iterable[str], lines: Lines) -> PolicyMap:
    """Return a policy of a configuration, from its first line and the lines below it."""
    classes: list[tuple[str, list[str]]] = []
    for words in below:
        if name := _class_name(words):
            classes.append((name, []))
        elif classes and is_setting(words):
            classes[-1][1].append(words)
        elif not words.startswith("description "):
            lines.unknown(words)
    return PolicyMap(
        type=policy_type(head["type"]),
        name=head["name"],
        classes=tuple(class_of(name, settings, lines) for name, settings in classes),
    )
