"""Writes a configuration as text, completely or in part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from switchlab.nexus.model.config import Attachment, ClassMap, Config, Interface, PolicyMap, QosKind
from switchlab.nexus.model.settings import GLOBAL_SETTINGS, INTERFACE_SETTINGS, Setting


@dataclass(slots=True)
class Block:
    """A line of configuration and the lines that belong to it."""

    line: str
    children: list[Block] = field(default_factory=list)
    qos: bool = False

    def lines(self, depth: int = 0) -> Iterator[str]:
        yield "  " * depth + self.line
        for child in self.children:
            yield from child.lines(depth + 1)


def render(blocks: Iterable[Block]) -> str:
    """Return the text of blocks, with an empty line around interfaces as NX-OS prints them."""
    lines: list[str] = []
    for block in blocks:
        if block.line.startswith("interface ") or (lines and lines[-1].startswith("  ") and _is_plain(block)):
            lines.append("")
        lines += block.lines()
    return "\n".join(lines) + "\n" if lines else ""


def _is_plain(block: Block) -> bool:
    return not block.children and not block.line.startswith(("class-map", "policy-map", "system qos", "vlan "))


def compress(numbers: set[int]) -> str:
    """Write numbers as NX-OS does: 24,26-31."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def running_blocks(config: Config, *, everything: bool = False) -> list[Block]:
    """Return a configuration as blocks; `everything` adds the settings that are at their defaults."""
    return [
        *_first_settings(config, everything),
        *(Block(f"feature {name}") for name in sorted(config.features)),
        *(Block(f"no feature {name}") for name in config.platform.features if name not in config.features),
        *_other_settings(config, everything),
        *_class_maps(config, everything),
        *_policy_maps(config, everything),
        *_system_qos(config, everything),
        *_vlans(config),
        *(_interface(config, interface, everything) for interface in config.ordered_interfaces()),
    ]


def qos_blocks(config: Config, *, everything: bool = False) -> list[Block]:
    """Return the part that `show running-config ipqos` prints."""
    blocks: list[Block] = []
    for block in running_blocks(config, everything=everything):
        if block.line.startswith("interface "):
            children = [child for child in block.children if child.qos]
            if children:
                blocks.append(Block(block.line, children, qos=True))
        elif block.qos:
            blocks.append(block)
    return blocks


def _setting_lines(settings: dict[str, str], table: Iterable[Setting], defaults: dict[str, str]) -> Iterator[Block]:
    for setting in table:
        keys = [
            key for key in settings if key == setting.key or (setting.key.endswith(">") and _same_stem(key, setting))
        ]
        for key in keys:
            yield Block(settings[key], qos=setting.qos)
        if not keys and setting.key in defaults:
            yield Block(defaults[setting.key], qos=setting.qos)


def _same_stem(key: str, setting: Setting) -> bool:
    return key.split()[:-1] == setting.key.split()[:-1]


def _global_defaults(config: Config, everything: bool) -> dict[str, str]:
    if not everything:
        return {}
    return {
        setting.key: setting.default
        for setting in GLOBAL_SETTINGS
        if setting.default
        and config.platform.family in setting.families
        and (setting.feature is None or setting.feature in config.features)
    }


def _first_settings(config: Config, everything: bool) -> Iterator[Block]:
    return _setting_lines(config.settings, GLOBAL_SETTINGS[:1], _global_defaults(config, everything))


def _other_settings(config: Config, everything: bool) -> Iterator[Block]:
    return _setting_lines(config.settings, GLOBAL_SETTINGS[1:], _global_defaults(config, everything))


def _class_maps(config: Config, everything: bool) -> Iterator[Block]:
    for kind in ("qos", "network-qos", "queuing"):
        for item in config.class_maps.values():
            if item.kind == kind and (everything or not item.builtin) and item.name != "class-default":
                yield class_map_block(item)


def class_map_block(item: ClassMap) -> Block:
    mode = f" {item.mode}" if item.kind != "network-qos" or item.builtin else ""
    return Block(
        f"class-map type {item.kind}{mode} {item.name}",
        [Block(criterion.line) for criterion in item.criteria],
        qos=True,
    )


def _policy_maps(config: Config, everything: bool) -> Iterator[Block]:
    order: tuple[QosKind, ...] = ("qos", "network-qos", "queuing")
    for kind in order:
        for item in config.policy_maps.values():
            if item.kind == kind and (everything or not item.builtin):
                yield policy_map_block(item)


def policy_map_block(policy: PolicyMap) -> Block:
    prefix = "class" if policy.kind == "qos" else f"class type {policy.kind}"
    classes = [
        Block(f"{prefix} {item.name}", [Block(action.line) for action in item.actions.values()])
        for item in policy.classes.values()
    ]
    return Block(f"policy-map type {policy.kind} {policy.name}", classes, qos=True)


def service_policy_line(attachment: Attachment, name: str, *, no_stats: bool = False) -> str:
    kind, direction = attachment
    words = ["service-policy type", kind, direction, name, "no-stats" if no_stats else ""]
    return " ".join(word for word in words if word)


def _system_qos(config: Config, everything: bool) -> Iterator[Block]:
    attached = {**(config.default_policies if everything else {}), **config.system_policies}
    if attached:
        order = ("qos", "queuing", "network-qos")
        lines = sorted(attached.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        yield Block("system qos", [Block(service_policy_line(where, name)) for where, name in lines], qos=True)


def _vlans(config: Config) -> Iterator[Block]:
    yield Block(f"vlan {compress(set(config.vlans))}")
    for number, settings in sorted(config.vlans.items()):
        if settings:
            yield Block(f"vlan {number}", [Block(line) for line in settings.values()])


def _interface(config: Config, interface: Interface, everything: bool) -> Block:
    defaults = {
        setting.key: setting.default_on(interface)
        for setting in INTERFACE_SETTINGS
        if everything
        and interface.kind in setting.kinds
        and config.platform.family in setting.families
        and (setting.feature is None or setting.feature in config.features)
        and setting.default_on(interface)
    }
    children = list(_setting_lines(interface.settings, INTERFACE_SETTINGS, defaults))
    policies = [
        Block(service_policy_line(where, name, no_stats=where in interface.no_stats), qos=True)
        for where, name in sorted(interface.policies.items())
    ]
    last = [child for child in children if child.line in ("shutdown", "no shutdown")]
    return Block(f"interface {interface.name}", [child for child in children if child not in last] + policies + last)
