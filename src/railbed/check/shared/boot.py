"""What the next boot makes of a setting that is right now, and the warning if it is not the same.

A setting survives if the network services, railbed's unit or whatever else acts at boot store it. It is reported as
lost only if everything that acts at boot was read and understood: what is not known is no reason to warn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from railbed.model.fix import Fix, RunStep
from railbed.model.probe import Probe
from railbed.parsing.boot_unit import read_unit
from railbed.parsing.netconfig.stored import StoredPort
from railbed.probes import boot_config, boot_network, boot_scripts
from railbed.probes.boot_config import UNIT
from railbed.probes.boot_network import BootNetwork
from railbed.rules.judgement import Judgement, warn
from railbed.rules.site import NodeView, PortView

BOOT_PROBES: tuple[Probe[Any], ...] = (boot_config.PROBE, boot_network.PROBE, boot_scripts.PROBE)
Blocks = Mapping[str, Sequence[str]]
"""The commands of railbed's unit, by the setting that they make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterBoot:
    """What the next boot makes of a setting."""

    state: Literal["same", "other", "nowhere", "unknown"]
    reason: str = ""
    """What is stored instead, and where; or why that is not known."""
    is_lease: bool = False
    """A DHCP server decides."""


SAME = AfterBoot(state="same")
NOTHING_SETS_IT = AfterBoot(state="nowhere", reason="gone after a reboot: nothing sets it at boot")


def survives(right: Judgement, later: AfterBoot, fix: Fix) -> Judgement:
    """Return the judgement of a setting that is right now: a warning if the next boot restores something else.

    `fix` makes the setting; `configure` only stores it.
    """
    match later.state:
        case "same":
            return right
        case "unknown":
            return replace(right, evidence=right.evidence or later.reason)
    return warn(
        expected=right.expected,
        observed=f"{right.observed} right now, {later.reason}",
        subject=right.subject,
        evidence=right.evidence,
        fix=replace(fix, at_boot_only=True, interrupts=False, condition="", alternative="", after=()),
    )


def unit_key(rule: str, port: PortView | None = None) -> str:
    """Return the name of a setting in railbed's unit."""
    return f"{rule} {port.port.netdev}" if port else rule


def by_unit(
    node: NodeView, key: str, fix: Fix, is_stored: Callable[[Blocks, Collection[str]], bool] | None = None
) -> AfterBoot | None:
    """Return the answer of railbed's unit, which runs last at boot; None if it does not set this.

    It is stored if a block has all commands of the fix, or as `is_stored` decides from the blocks and these commands.
    """
    blocks = unit_blocks(node)
    wanted = {step.command for step in fix.apply if isinstance(step, RunStep)}
    if (is_stored or _has_all)(blocks, wanted):
        return SAME
    if key not in blocks:
        return None
    if not _programs(wanted) & _programs(blocks[key]):
        return unknown_after(f"{UNIT} sets it with another program")
    return AfterBoot(state="other", reason=f"after a reboot what {UNIT} sets: {'; '.join(blocks[key])}")


def unit_blocks(node: NodeView) -> Blocks:
    """Return the commands that railbed's unit runs at boot."""
    boot = node.try_read(boot_config.PROBE)
    return {} if boot is None or boot.unit_enabled is False else read_unit(boot.files.get(UNIT, ""))


def _has_all(blocks: Blocks, wanted: Collection[str]) -> bool:
    return any(set(wanted) <= set(commands) for commands in blocks.values())


def _programs(commands: Collection[str]) -> set[str]:
    return {command.partition(" ")[0] for command in commands}


def understood(node: NodeView, setting: str, besides: Collection[str] = ()) -> BootNetwork | AfterBoot:
    """Return the facts if all that sets this at boot is understood, else why not; files `besides` are understood."""
    network, scripts = node.try_read(boot_network.PROBE), node.try_read(boot_scripts.PROBE)
    files = scripts.of(setting) if scripts else None
    if network is None or files is None or not network.services:
        return AfterBoot(state="unknown")
    others = (*network.unread, *network.agents, *(file for file in files if file not in besides))
    return unknown_after(f"{others[0]} may also set it at boot") if others else network


def unknown_after(reason: str = "") -> AfterBoot:
    """Return that it is not known what the next boot sets."""
    return AfterBoot(state="unknown", reason=reason)


def unclear_after(service: StoredPort) -> AfterBoot:
    """Return that a service may store a setting."""
    return unknown_after(f"{service.source} may store it in a way that railbed does not understand")
