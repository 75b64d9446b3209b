"""Faults: what goes wrong in a real fabric, declared on purpose and healed on request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from railbed.errors import DeviceError, UsageError
from railbed.lab import folder
from railbed.lab.kind import KINDS
from railbed.lab.model import Fault, FaultName, Lab
from railbed.model import events
from railbed.model.record import Record

ON_NODES: frozenset[FaultName] = frozenset({"cut", "freeze", "kill", "mtu", "slow"})
ON_RAILS: frozenset[FaultName] = frozenset({"cut", "slow", "lose", "mark"})
MTU_RANGE = range(68, 65536)
SLOWEST = 1e5


async def inflict(name: str | None, fault: Fault) -> AsyncGenerator[Record, None]:
    """Declare a fault and apply it; it replaces one of the same kind on the same target."""
    with folder.locked(folder.chosen_lab(name)) as lab:
        _check(lab, fault)
        others = tuple(other for other in lab.faults if (other.fault, other.target) != (fault.fault, fault.target))
        await _settle(lab, replace(lab, faults=(*others, fault)), {fault.target})
    yield events.LabFaultSet(subject=fault.target, message=describe(fault), fault=fault.fault)


async def heal(name: str | None, target: str | None) -> AsyncGenerator[Record, None]:
    """Heal the faults on a node or rail, or all."""
    with folder.locked(folder.chosen_lab(name)) as lab:
        if target is not None:
            _check_target(lab, target, nodes=True, rails=True)
        healed = [fault for fault in lab.faults if target in (None, fault.target)]
        remaining = tuple(fault for fault in lab.faults if fault not in healed)
        await _settle(lab, replace(lab, faults=remaining), {fault.target for fault in healed})
    for fault in healed:
        yield events.LabHealed(subject=fault.target, message=f"{describe(fault)}: undone")
    if not healed:
        yield events.Notice(subject=target or "", message="there are no faults to heal")


def describe(fault: Fault) -> str:
    """Return a fault as it is written on the command line, without its target."""
    match fault:
        case Fault("slow" | "mark", _, float(rate)):
            return f"{fault.fault} {rate / 1e9:g}G" if rate >= 1e9 else f"{fault.fault} {rate / 1e6:g}M"
        case Fault("lose", _, float(percent)):
            return f"lose {percent:g}%"
        case Fault("mtu", _, float(value)):
            return f"mtu {value:.0f}"
        case _:
            return fault.fault


async def _settle(before: Lab, after: Lab, targets: set[str]) -> None:
    """Apply the new faults and save them; on failure restore the old ones. After an interruption `heal` repairs it."""
    kind = KINDS[after.spec.kind]
    folder.save(replace(before, faults=tuple({*before.faults, *after.faults})))
    try:
        await kind.settle(after, targets)
    except DeviceError:
        await kind.settle(before, targets)
        folder.save(before)
        raise
    folder.save(after)


def _check(lab: Lab, fault: Fault) -> None:
    if lab.state != "up":
        raise UsageError(f"lab {lab.spec.name!r} is not up yet")
    _check_target(lab, fault.target, nodes=fault.fault in ON_NODES, rails=fault.fault in ON_RAILS)
    value = fault.value or 0
    if fault.fault == "mtu" and int(value) not in MTU_RANGE:
        raise UsageError(f"an MTU is {MTU_RANGE.start} to {MTU_RANGE.stop - 1} bytes, not {value:g}")
    if fault.fault == "lose" and not 0 < value <= 100:
        raise UsageError(f"loss is more than 0 and at most 100 percent, not {value:g}")
    if fault.fault in ("slow", "mark") and fault.value is not None and value < SLOWEST:
        raise UsageError("a rate is at least 100k bit/s")
    if fault.fault in ("freeze", "mtu", "cut") and lab.of("kill", fault.target):
        heal_it = f"railbed lab fault heal {fault.target}{folder.name_option(lab.spec.name)}"
        raise UsageError(f"{fault.target} was killed", hint=f"`{heal_it}` starts it again")


def _check_target(lab: Lab, target: str, *, nodes: bool, rails: bool) -> None:
    known = [*([node.name for node in lab.nodes] if nodes else []), *(lab.rails if rails else [])]
    if target not in known:
        what = " or ".join(word for word, wanted in (("node", nodes), ("rail", rails)) if wanted)
        raise UsageError(
            f"{target!r} is not a {what} of lab {lab.spec.name!r}", hint=f"choose one of: {', '.join(known)}"
        )
