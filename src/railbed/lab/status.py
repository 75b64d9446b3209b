"""Lists labs with the state of their nodes and their faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from railbed.lab import folder, switch
from railbed.lab.fault import describe
from railbed.lab.kind import KINDS
from railbed.lab.model import SWITCH, Fault, StoredLab
from railbed.model import events
from railbed.model.record import Record


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
