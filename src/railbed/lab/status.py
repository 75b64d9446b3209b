"""Lists labs with the state of their nodes and their faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import asdict

from railbed.lab import folder
from railbed.lab.fault import describe
from railbed.lab.kind import KINDS
from railbed.lab.model import Lab
from railbed.model.record import Event, Record


async def status() -> AsyncGenerator[Record, None]:
    """Yield an event per lab, with its nodes and the faults in force."""
    for lab in folder.load_labs():
        yield Event(
            name="lab",
            subject=lab.spec.name,
            message=_state(lab),
            data={
                **{key: value for key, value in asdict(lab.spec).items() if key != "name"},
                "cluster": str(lab.cluster_file),
                "states": dict(await KINDS[lab.spec.kind].states(lab)),
                "faults": [{**asdict(fault), "text": describe(fault)} for fault in lab.faults],
            },
        )


def _state(lab: Lab) -> str:
    if lab.state == "up":
        return "up"
    return "starting" if folder.is_busy(lab) else "broken: the next `lab up` or `lab down` clears it"
