"""What the next boot makes of settings of a machine: its kernel modules, its governor, its GPUs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from railbed.check.shared.boot import (
    BOOT_PROBES,
    NOTHING_SETS_IT,
    SAME,
    AfterBoot,
    Blocks,
    by_unit,
    understood,
    unit_blocks,
    unknown_after,
)
from railbed.check.shared.port import load_modules
from railbed.model.fix import Fix
from railbed.model.probe import Probe
from railbed.probes import boot_host, boot_modules
from railbed.probes.boot_host import BootHost
from railbed.probes.boot_modules import BootModules
from railbed.rules.site import NodeView

HOST_PROBES: tuple[Probe[Any], ...] = (*BOOT_PROBES, boot_host.PROBE)
MODULE_PROBES: tuple[Probe[Any], ...] = (*HOST_PROBES, boot_modules.PROBE)
_MODPROBE = re.compile(r"modprobe (?:-a )?(?P<names>[\w -]+)")
_GPUS = re.compile(r"nvidia-smi -i (?P<indices>[\d,]+) -pm 1")


def modules_after_boot(node: NodeView, drivers: Collection[str], others: Collection[str]) -> tuple[AfterBoot, Fix]:
    """Return whether the next boot loads modules that are loaded, and the fix that loads them.

    `drivers` are loaded for their hardware, unless a file forbids it; `others` only by their names.
    """
    stored = list(_stored_modules(unit_blocks(node)))
    wanted = dict.fromkeys((*drivers, *others))
    facts = node.try_read(boot_modules.PROBE)
    lost = {name: why for name in wanted if (why := _why_lost(name, facts, is_driver=name in drivers))} if facts else {}
    missing = [name for name in lost if name not in stored]
    # What the unit loads already stays in it.
    fix = load_modules(node, list(dict.fromkeys((*stored, *missing))) or list(wanted))
    if facts is None:
        return unknown_after(), fix
    if not missing:
        return SAME, fix
    files = (*facts.blocked.values(), *facts.loads.values())
    network = understood(node, "modules", besides=files)
    if isinstance(network, AfterBoot):
        return network, fix
    host = node.try_read(boot_host.PROBE)
    if facts.ofed or host is None or host.orchestrators:
        who = "openibd" if facts.ofed else host.orchestrators[0] if host else "something"
        return unknown_after(f"{who} may also load it"), fix
    return _lost_modules({name: lost[name] for name in missing}), fix


def _stored_modules(blocks: Blocks) -> Iterator[str]:
    for commands in blocks.values():
        for match in filter(None, map(_MODPROBE.fullmatch, commands)):
            yield from match["names"].split()


def _why_lost(name: str, facts: BootModules, *, is_driver: bool) -> str:
    """Return why the next boot does not load a module; empty if it does."""
    plain = name.replace("-", "_")
    if plain in facts.blocked:
        return f"{facts.blocked[plain]} blocks it"
    if is_driver or plain in facts.loads or plain in facts.on_demand:
        return ""
    return "nothing loads it at boot"


def _lost_modules(lost: dict[str, str]) -> AfterBoot:
    blocked = {name: why for name, why in lost.items() if why.endswith("blocks it")}
    name, why = next(iter((blocked or lost).items()))
    if blocked:
        return AfterBoot(state="other", reason=f"after a reboot without {name}: {why}")
    return AfterBoot(state="nowhere", reason=f"gone after a reboot: nothing loads {' and '.join(lost)} at boot")


def governor_after_boot(node: NodeView, rule: str, fix: Fix, wanted: str) -> AfterBoot:
    """Return what the next boot makes of the governor of all processors."""
    if answer := by_unit(node, rule, fix):
        return answer
    network, host = understood(node, "governor"), node.try_read(boot_host.PROBE)
    if isinstance(network, AfterBoot) or host is None:
        return network if isinstance(network, AfterBoot) else unknown_after()
    return _stored_governor(host, wanted)


def _stored_governor(host: BootHost, wanted: str) -> AfterBoot:
    services = {governor: service for service, governor in host.governors.items()}
    if None in services or len(services) > 1:
        return unknown_after(f"{' and '.join(host.governors)} may also set it at boot")
    if services:
        ((governor, service),) = services.items()
        other = AfterBoot(state="other", reason=f"after a reboot {governor}: {service} sets it")
        return SAME if governor == wanted else other
    if host.default_governor is None:
        return unknown_after("the governor that the kernel starts with is not known")
    if host.default_governor == wanted:
        return SAME
    reason = f"gone after a reboot: nothing sets it at boot, and the kernel starts with {host.default_governor}"
    return AfterBoot(state="nowhere", reason=reason)


def gpus_after_boot(node: NodeView, rule: str, fix: Fix, indices: Sequence[int]) -> AfterBoot:
    """Return what the next boot makes of the persistence mode of GPUs."""

    def is_stored(blocks: Blocks, _: Collection[str]) -> bool:
        matches = (match for commands in blocks.values() for match in map(_GPUS.fullmatch, commands) if match)
        stored = {index for match in matches for index in match["indices"].split(",")}
        return set(map(str, indices)) <= stored

    if answer := by_unit(node, rule, fix, is_stored):
        return answer
    network, host = understood(node, "gpu"), node.try_read(boot_host.PROBE)
    if isinstance(network, AfterBoot) or host is None:
        return network if isinstance(network, AfterBoot) else unknown_after()
    if host.persistenced == "on":
        return SAME
    if host.orchestrators:
        return unknown_after(f"{host.orchestrators[0]} may start a container that sets it")
    if host.persistenced is None:
        return NOTHING_SETS_IT
    return AfterBoot(state="nowhere", reason=f"gone after a reboot: {host.persistenced}")
