"""Faults: what goes wrong in a real fabric, injected on purpose and healed on request; labs with their faults.

Rates, times and percentages are read and written as people do.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace

from railbed.errors import DeviceError, UsageError
from railbed.lab import folder, switch
from railbed.lab.kind import KINDS
from railbed.lab.model import CONTROLLER, SWITCH, Fault, FaultName, StoredLab
from railbed.model import events
from railbed.model.record import Record

ON_NODES: frozenset[FaultName] = frozenset({"cut", "freeze", "kill", "mtu", "slow"})
ON_RAILS: frozenset[FaultName] = frozenset({"cut", "slow", "lose", "mark"})
ON_SWITCH: frozenset[FaultName] = frozenset({"cut", "freeze", "kill", "refuse"})
ON_CONTROLLER: frozenset[FaultName] = frozenset({"freeze", "kill"})
MTU_RANGE = range(68, 65536)
SLOWEST = 1e5


async def inflict(name: str | None, fault: Fault) -> AsyncGenerator[Record, None]:
    """Declare a fault and apply it; it replaces one of the same kind on the same target."""
    with folder.lock_lab(folder.chosen_lab(name)) as lab:
        _check(lab, fault)
        others = tuple(other for other in lab.faults if (other.fault, other.target) != (fault.fault, fault.target))
        await _settle(lab, replace(lab, faults=(*others, fault)), {fault.target})
    yield events.LabFaultSet(subject=fault.target, message=describe(fault), fault=fault.fault)


async def heal(name: str | None, target: str | None) -> AsyncGenerator[Record, None]:
    """Heal the faults on a node, a rail, the switch or the controller, or all."""
    with folder.lock_lab(folder.chosen_lab(name)) as lab:
        if target is not None:
            _check_target(lab, target, ["node", "rail", "switch", "controller"])
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
        case Fault("refuse"):
            return f"refuse {fault.text!r}"
        case _:
            return fault.fault


async def _settle(before: StoredLab, after: StoredLab, targets: set[str]) -> None:
    """Apply the new faults and save them; on failure restore the old ones. After an interruption `heal` repairs it."""
    folder.save(replace(before, faults=tuple({*before.faults, *after.faults})))
    try:
        await _apply(after, targets)
    except DeviceError:
        await _apply(before, targets)
        folder.save(before)
        raise
    folder.save(after)


async def _apply(lab: StoredLab, targets: set[str]) -> None:
    if targets != {SWITCH}:
        await KINDS[lab.spec.kind].settle(lab, targets - {SWITCH})
    # Also for nodes and rails: the switch shows which of its ports have a link.
    await switch.settle(lab)


def _check(lab: StoredLab, fault: Fault) -> None:
    if lab.state != "up":
        raise UsageError(f"lab {lab.spec.name!r} is not up yet")
    possible = {"node": ON_NODES, "rail": ON_RAILS, "switch": ON_SWITCH, "controller": ON_CONTROLLER}
    _check_target(lab, fault.target, [what for what, faults in possible.items() if fault.fault in faults])
    value = fault.value or 0
    if fault.fault == "mtu" and int(value) not in MTU_RANGE:
        raise UsageError(f"an MTU is {MTU_RANGE.start} to {MTU_RANGE.stop - 1} bytes, not {value:g}")
    if fault.fault == "lose" and not 0 < value <= 100:
        raise UsageError(f"loss is more than 0 and at most 100 percent, not {value:g}")
    if fault.fault in ("slow", "mark") and fault.value is not None and value < SLOWEST:
        raise UsageError("a rate is at least 100k bit/s")
    if fault.fault == "refuse" and not fault.text.strip():
        raise UsageError("`refuse` needs the start of a command, such as rollback")
    if fault.fault in ("freeze", "mtu", "cut", "refuse") and lab.of("kill", fault.target):
        heal_it = f"railbed lab fault heal {fault.target}{folder.name_option(lab.spec.name)}"
        raise UsageError(f"{fault.target} was killed", hint=f"`{heal_it}` starts it again")


def _check_target(lab: StoredLab, target: str, kinds: list[str]) -> None:
    """Refuse a target that the lab does not have, or that is not of these kinds."""
    names = {
        "node": [node.name for node in lab.nodes],
        "rail": list(lab.rails),
        "switch": [SWITCH] if lab.spec.switch else [],
        "controller": [CONTROLLER] if lab.controller else [],
    }
    possible = [kind for kind in kinds if names[kind]] or kinds
    known = [name for kind in possible for name in names[kind]]
    if target not in known:
        hint = (
            f"choose one of: {', '.join(known)}" if known else "`railbed lab up --switch` creates a lab with a switch"
        )
        raise UsageError(f"{target!r} is not a {' or '.join(possible)} of lab {lab.spec.name!r}", hint=hint)


RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKmMgG])(?:bit(?:/s)?|b/s|bps)?", re.ASCII)
DELAY = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s)", re.ASCII)
PERCENT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*%?", re.ASCII)
PER_SECOND = {"k": 1e3, "m": 1e6, "g": 1e9}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
FASTEST = 4e11


def parse_rate(text: str) -> int:
    """Read `10G`, `500M`, `1.5Gbit` as bit/s."""
    match = RATE.fullmatch(text.strip())
    rate = float(match["number"]) * PER_SECOND[match["unit"].lower()] if match else 0
    if not 0 < rate <= FASTEST:
        raise UsageError(f"{text!r} is not a rate", hint="write it as 500M, 1G, 10G or 40G (bit/s), at most 400G")
    return round(rate)


def parse_delay(text: str) -> float:
    """Read `50us`, `2ms` as seconds."""
    match = DELAY.fullmatch(text.strip())
    delay = float(match["number"]) * SECONDS[match["unit"]] if match else 0
    if not 0 < delay <= 1:
        raise UsageError(f"{text!r} is not a delay", hint="write it as 50us or 2ms, at most 1s")
    return delay


def parse_percent(text: str) -> float:
    """Read `5`, `0.1%`."""
    match = PERCENT.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a percentage", hint="write it as 0.1 or 5")
    return float(match["number"])


async def status() -> AsyncGenerator[Record, None]:
    """Yield an event per lab, with its nodes and the faults in force."""
    for lab in folder.load_labs():
        spec = lab.spec
        yield events.LabStatus(
            subject=spec.name,
            message=_state(lab),
            kind=spec.kind,
            nodes=spec.nodes,
            rails=spec.rails,
            rate=spec.rate,
            delay=spec.delay,
            memory=spec.memory,
            arch=spec.arch,
            cluster=str(lab.cluster_file),
            switch=spec.switch,
            scheduler=spec.scheduler,
            states={**await KINDS[spec.kind].states(lab), **({SWITCH: switch.state(lab)} if spec.switch else {})},
            faults=[_fault(fault) for fault in lab.faults],
        )


def _fault(fault: Fault) -> events.LabFault:
    return events.LabFault(fault=fault.fault, target=fault.target, value=fault.value, text=describe(fault))


def _state(lab: StoredLab) -> str:
    if lab.state == "up":
        return "up"
    return "starting" if folder.is_busy(lab) else "broken: the next `lab up` or `lab down` clears it"
