"""What the next boot makes of settings of a card: those that only commands restore, and those that ethtool sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal

from railbed.check.shared.boot import (
    BOOT_PROBES,
    NOTHING_SETS_IT,
    SAME,
    AfterBoot,
    Blocks,
    by_unit,
    unclear_after,
    understood,
    unit_blocks,
    unit_key,
    unknown_after,
)
from railbed.check.shared.qos import ofed_qos
from railbed.model.fix import Fix
from railbed.model.probe import Probe
from railbed.parsing.netconfig.stored import StoredPort
from railbed.probes import boot_firmware, boot_network
from railbed.probes.boot_firmware import CardBootSettings
from railbed.probes.boot_network import BootNetwork, BootPort
from railbed.rules.site import PortView

FIRMWARE_PROBES: tuple[Probe[Any], ...] = (*BOOT_PROBES, boot_firmware.PROBE)
PAUSE_ON = ("mlx5_core", "mlx4_core", "mlx4_en")
"""Drivers whose interfaces start with global pause on; those of others differ."""


def unit_after_boot(
    port: PortView,
    rule: str,
    fix: Fix,
    setting: Literal["qos", "tos"],
    is_stored: Callable[[Blocks, Collection[str]], bool] | None = None,
) -> AfterBoot:
    """Return what the next boot makes of a setting of a port that only commands can restore."""
    if answer := by_unit(port.node, unit_key(rule, port), fix, is_stored):
        return answer
    network = understood(port.node, setting)
    if isinstance(network, AfterBoot):
        return network
    if setting == "qos" and (reason := _other_master(port, network)):
        return unknown_after(reason)
    return NOTHING_SETS_IT


def _other_master(port: PortView, network: BootNetwork) -> str:
    """Return what besides commands may give a port its QoS; empty if nothing does."""
    if network.lldpad:
        return "lldpad may also set it at boot"
    qos = ofed_qos(port)
    by_host = network.ports.get(port.port.netdev, BootPort()).dcbx_by_host
    if qos and qos.dcbx_mode:
        by_host = qos.dcbx_mode == "OS controlled"
    return "" if by_host else "the card may take it from the switch (DCBX)"


def buffers_after_boot(port: PortView, rule: str, fix: Fix, *, is_automatic: bool) -> AfterBoot:
    """Return what the next boot makes of receive buffers; a card rounds their sizes, so those are not compared."""

    def is_stored(blocks: Blocks, wanted: Collection[str]) -> bool:
        stored = {_without_sizes(command) for commands in blocks.values() for command in commands}
        return {_without_sizes(command) for command in wanted} <= stored

    later = unit_after_boot(port, rule, fix, "qos", is_stored)
    if later.state == "nowhere" and is_automatic:
        return unknown_after("the firmware assigns the buffer together with PFC")
    return later


def _without_sizes(command: str) -> str:
    return re.split(r" -{0,2}buffer[_-]size", command)[0]


def offloads_after_boot(port: PortView, rule: str, fix: Fix, names: Collection[str]) -> AfterBoot:
    """Return what the next boot makes of offloads that are on: every driver starts with them."""

    def is_stored(blocks: Blocks, wanted: Collection[str]) -> bool:
        prefix = next(iter(wanted)).partition(" -K ")[0]
        lines = (command for commands in blocks.values() for command in commands if command.startswith(prefix))
        return set(names) <= {name for line in lines for name in re.findall(r"\b(\w++) on\b", line)}

    if answer := by_unit(port.node, unit_key(rule, port), fix, is_stored):
        return answer
    return _by_ethtool(port, "offloads", dict.fromkeys(names, True), starts=True)


def pause_after_boot(port: PortView, rule: str, fix: Fix, *, is_on: bool) -> AfterBoot:
    """Return what the next boot makes of global pause, in both directions."""
    if answer := by_unit(port.node, unit_key(rule, port), fix):
        return answer
    later = _by_ethtool(port, "pause", {"pause-rx": is_on, "pause-tx": is_on}, starts=None)
    if not is_on and later.state == "nowhere" and _sets_pfc(port):
        return unknown_after("what sets PFC at boot may turn it off, too")
    return later


def _sets_pfc(port: PortView) -> bool:
    """Whether something may set PFC at boot: the firmware has either that or global pause."""
    commands = [command for lines in unit_blocks(port.node).values() for command in lines]
    netdev = port.port.netdev
    own = any(netdev in command and re.search(r"\bpfc\b", command) for command in commands)
    return own or isinstance(understood(port.node, "qos"), AfterBoot)


def _by_ethtool(port: PortView, setting: str, wanted: Mapping[str, bool], *, starts: bool | None) -> AfterBoot:
    """Compare what configurations store of settings of ethtool, and what the driver starts with."""
    network = understood(port.node, setting, besides=_link_file(port))
    if isinstance(network, AfterBoot):
        return network
    boot = network.ports.get(port.port.netdev, BootPort())
    sources = [*boot.stored, *([boot.link_file] if boot.link_file else [])]
    if unclear := [source for source in sources if set(source.unclear) & set(wanted)]:
        return unclear_after(unclear[0])
    if starts is None and boot.driver in PAUSE_ON:
        starts = True
    answers = [_one_switch(sources, name, is_on=is_on, starts=starts) for name, is_on in wanted.items()]
    worst = ("other", "nowhere", "unknown", "same")
    return min(answers, key=lambda answer: worst.index(answer.state), default=SAME)


def _one_switch(sources: Iterable[StoredPort], name: str, *, is_on: bool, starts: bool | None) -> AfterBoot:
    stored = {source.ethtool[name]: source for source in sources if name in source.ethtool}
    if len(stored) > 1:
        return unclear_after(stored[not is_on])
    if stored:
        ((value, source),) = stored.items()
        state = f"{name} {'on' if value else 'off'}"
        return SAME if value is is_on else AfterBoot(state="other", reason=f"after a reboot {state}: {source.source}")
    if starts is None:
        return unknown_after("what the driver starts with is not known")
    return SAME if starts is is_on else NOTHING_SETS_IT


def _link_file(port: PortView) -> tuple[str, ...]:
    facts = port.node.try_read(boot_network.PROBE)
    boot = facts.ports.get(port.port.netdev) if facts else None
    return (boot.link_file.source,) if boot and boot.link_file else ()


def firmware_after_boot(
    port: PortView, rule: str, fix: Fix, judge: Callable[[CardBootSettings], AfterBoot]
) -> AfterBoot:
    """Return what the next boot makes of congestion control; `judge` says it from what the firmware starts with."""
    if answer := by_unit(port.node, unit_key(rule, port), fix):
        return answer
    network = understood(port.node, "dcqcn")
    if isinstance(network, AfterBoot):
        return network
    facts = port.node.try_read(boot_firmware.PROBE)
    card = facts.interfaces.get(port.port.netdev) if facts else None
    return judge(card) if card else unknown_after("no mlxconfig shows what the firmware starts with")
