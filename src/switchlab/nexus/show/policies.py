"""`show policy-map`, `show class-map` and the configurations."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Sequence

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.model.config import QOS_KINDS, ClassMap, PolicyMap, QosKind
from switchlab.nexus.model.render import Block, class_map_block, policy_map_block, qos_blocks, render, running_blocks
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.show.interfaces import select_interfaces
from switchlab.nexus.show.layout import timestamp
from switchlab.nexus.show.policy_data import (
    class_map_data,
    interface_policy_data,
    policy_map_data,
    queue_of,
    system_policy_data,
)

ATTACHMENTS: tuple[tuple[QosKind, str], ...] = (("qos", "input"), ("queuing", "input"), ("queuing", "output"))


def _heading(kind: QosKind, what: str) -> str:
    title = f"Type {kind} {what}"
    return f"\n\n  {title}\n  {'=' * len(title)}\n"


def show_policy_maps(switch: Switch, kind: QosKind | None = None, name: str | None = None) -> Shown:
    text, shown = "", list[PolicyMap]()
    for each in QOS_KINDS:
        items = [
            item for item in switch.running.policy_maps.values() if item.kind == each and name in (None, item.name)
        ]
        if items and kind in (None, each):
            text += _heading(each, "policy-maps") + "".join(_policy_text(switch, item) for item in items)
            shown += items
    return Shown(text, policy_map_data(switch, shown, kind))


def _policy_text(switch: Switch, policy: PolicyMap) -> str:
    block = policy_map_block(policy)
    for child, item in zip(block.children, policy.classes.values(), strict=True):
        if policy.kind == "network-qos":
            criteria = switch.running.class_maps[policy.kind, item.name].criteria
            child.children[:0] = [Block(criterion.line) for criterion in criteria]
        child.line = child.line.replace("class ", "class  ", 1) if policy.kind == "qos" else child.line
    return "\n" + "".join(f"  {line}\n" for line in block.lines())


def show_system_policies(switch: Switch, kind: QosKind | None = None) -> Shown:
    network = switch.running.system_policy(("network-qos", "")) if kind in (None, "network-qos") else None
    text, attached = "", list[tuple[str, PolicyMap]]()
    if network is not None:
        text += _heading("network-qos", "policy-maps") + _policy_text(switch, network)
    for where in ATTACHMENTS:
        policy = switch.running.system_policy(where)
        if policy is not None and kind in (None, where[0]):
            text += "\n" + _service_policy(switch, where, policy)
            attached.append((where[1], policy))
    return Shown(text, system_policy_data(switch, network, attached))


def show_interface_policies(
    switch: Switch, names: Sequence[str] = (), kind: QosKind | None = None, direction: str | None = None
) -> Shown:
    text, attached = "\n\nGlobal statistics status :   enabled\n", dict[str, list[tuple[str, PolicyMap]]]()
    for interface in select_interfaces(switch, names):
        if interface.kind != "ethernet":
            continue
        text += f"\n{interface.name}\n"
        attached[interface.name] = []
        for where in ATTACHMENTS:
            policy = switch.running.policy_on(interface.name, where)
            if policy is not None and kind in (None, where[0]) and direction in (None, where[1]):
                text += "\n" + _service_policy(switch, where, policy, interface.name)
                attached[interface.name].append((where[1], policy))
    return Shown(text, interface_policy_data(switch, attached))


def _service_policy(switch: Switch, where: tuple[QosKind, str], policy: PolicyMap, port: str | None = None) -> str:
    kind, direction = where
    index = (301_989_888 if kind == "queuing" else 285_212_672) + zlib.crc32(policy.name.encode()) % 4096
    text = f"  Service-policy ({kind}) {direction}:   {policy.name} \n    SNMP Policy Index:  {index}\n"
    for item in policy.classes.values():
        class_map = switch.running.class_maps[kind, item.name]
        text += f"\n    Class-map ({kind}):   {item.name} ({class_map.mode})\n"
        if kind == "qos":
            text += "".join(
                f"      Match: {criterion.line.removeprefix('match ')}\n" for criterion in class_map.criteria
            )
        text += "".join(f"      {action.line}\n" for action in item.actions.values())
        if kind == "queuing" and port is not None:
            text += _queue_text(switch, class_map, port)
    return text


def _queue_text(switch: Switch, class_map: ClassMap, port: str) -> str:
    queue = queue_of(switch, class_map, port)
    return f"      queue dropped pkts : {queue.drop_packets} \n      queue depth in bytes : {queue.depth_bytes} \n"


def show_class_maps(switch: Switch, kind: QosKind | None = None, name: str | None = None) -> Shown:
    text, shown = "", list[ClassMap]()
    for each in QOS_KINDS:
        items = [item for item in switch.running.class_maps.values() if item.kind == each and name in (None, item.name)]
        listed = [item for item in items if item.name != "class-default" or switch.platform.family == "n5k"]
        if listed and kind in (None, each):
            text += _heading(each, "class-maps") + "".join(_class_text(item) for item in listed)
            shown += listed
    return Shown(text, class_map_data(shown, kind))


def _class_text(item: ClassMap) -> str:
    block = class_map_block(item)
    if item.builtin and item.groups:
        what = "Classifier for Egress queue" if item.kind == "queuing" else "Default class on qos-group"
        block.children.insert(0, Block(f"Description: {what} {item.groups[0]}"))
    return "\n" + "".join(f"    {line}\n" for line in block.lines())


# Configurations


def show_running(
    switch: Switch, command: str, *, part: str = "", everything: bool = False, names: Iterable[str] = ()
) -> Shown:
    """Return the running configuration or a part of it, under the header that NX-OS prints."""
    blocks = (
        qos_blocks(switch.running, everything=everything)
        if part == "ipqos"
        else running_blocks(switch.running, everything=everything)
    )
    if part and part != "ipqos":
        wanted = {f"interface {name}" for name in names}
        blocks = [block for block in blocks if _belongs(block, part, wanted)]
    return Shown(header(switch, command, "Running") + render(blocks))


def _belongs(block: Block, part: str, interfaces: set[str]) -> bool:
    if part == "interface":
        return block.line in interfaces if interfaces else block.line.startswith("interface ")
    return block.line.startswith((f"{part} ", f"feature {part}"))


def show_startup(switch: Switch, command: str) -> Shown:
    if switch.startup is None:
        return Shown("No startup configuration\n")
    return Shown(header(switch, command, "Startup") + switch.startup)


def header(switch: Switch, command: str, which: str) -> str:
    saved = timestamp(switch.configured)
    kind = "Running configuration last done at" if which == "Running" else "Startup config saved at"
    return f"""
!Command: {command}
!{kind}: {saved}
!Time: {timestamp(time.time())}

version {switch.platform.release} Bios:version {switch.platform.bios}
"""
