"""Lists labs with the state of their nodes and their faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import asdict

from railbed.lab import folder
from railbed.lab.fault import describe
from railbed.lab.kind import KINDS
from railbed.lab.model import Lab
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
            states=dict(await KINDS[spec.kind].states(lab)),
            faults=[events.LabFault(**asdict(fault), text=describe(fault)) for fault in lab.faults],
        )


def _state(lab: Lab) -> str:
    if lab.state == "up":
        return "up"
    return "starting" if folder.is_busy(lab) else "broken: the next `lab up` or `lab down` clears it"
