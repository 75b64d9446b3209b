"""`railbed.Lab`: a virtual cluster on this machine, with faults on purpose."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

from railbed.api.clusters import load_cluster
from railbed.api.stream import EventStream
from railbed.errors import UsageError
from railbed.lab import folder
from railbed.lab.fault import heal, inflict, parse_delay, parse_percent, parse_rate, status
from railbed.lab.model import (
    AcceleratorName,
    ArchitectureName,
    Fault,
    FaultName,
    KindName,
    PlatformName,
    SchedulerName,
    Spec,
)
from railbed.lab.up import down, up
from railbed.model.cluster import Cluster
from railbed.model.events import LabStatus
from railbed.model.record import Event, Record
from railbed.store.writing import note_in_runs

WITH_A_RATE, WITH_A_NUMBER = ("slow", "mark"), ("lose", "mtu")


class Lab:
    """A virtual cluster on this machine: namespaces with real SSH, or virtual machines with real RoCEv2.

    `with railbed.Lab("ci", nodes=4) as lab:` brings it up and takes it down at the end, also with `async with`; a lab
    that is up, whoever started it, is `railbed.Lab("ci")`. Without a name it is the only lab, and `up` calls it `lab`.
    Its methods return an `EventStream`: what happens, as it happens, with or without `async`.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        kind: KindName = "netns",
        nodes: int = 2,
        rails: int = 1,
        rate: str | int | None = None,
        delay: str | float | None = None,
        memory: int = 0,
        training: bool = False,
        arch: ArchitectureName | None = None,
        accelerator: AcceleratorName | None = None,
        switch: PlatformName | None = None,
        scheduler: SchedulerName | None = None,
    ) -> None:
        """Describe a lab, for `up`; the other methods only use its name.

        `kind` is namespaces (`netns`) or virtual machines (`vm`), with `memory` in MB, a processor (`arch`), with KVM
        or emulated (`accelerator`), and with torch and MPI for `training`. Every link has a `rate`, such as "10G", and
        a `delay`, such as "50us". `switch` adds an emulated Nexus, `scheduler` Slurm.
        """
        self._name = name
        self.spec = Spec(
            name=name if name is not None else folder.DEFAULT_NAME,
            kind=kind,
            nodes=nodes,
            rails=rails,
            rate=parse_rate(rate) if isinstance(rate, str) else rate,
            delay=parse_delay(delay) if isinstance(delay, str) else delay,
            memory=memory,
            training=training,
            arch=arch,
            accelerator=accelerator,
            switch=switch,
            scheduler=scheduler,
        )

    def up(self) -> EventStream:
        """Bring the lab up, or leave nothing of it; the last event is `LabUp`, once every node answers."""
        self._name = self.spec.name
        return EventStream("lab up", lambda: up(self.spec))

    def down(self) -> EventStream:
        """End the lab and remove everything it created, also if its start was interrupted."""
        return EventStream("lab down", lambda: down(self._name))

    def status(self) -> EventStream:
        """Yield a `LabStatus`, with its nodes and the faults in force: of this lab, or without a name of each lab."""
        return EventStream("lab status", self._status)

    def fault(self, fault: FaultName, target: str, value: str | float | None = None) -> EventStream:
        """Cause a fault on a node, a rail, the switch (`nexus`) or the `controller`; runs in progress on it note it.

        `cut` takes links down; `freeze` and `kill` stop a machine; `slow` limits links to a rate, as "1G" or in bit/s;
        `lose` loses a percentage of a rail's packets; `mark` marks them as congested, or those above a rate; `mtu`
        changes that of a node's rails; `refuse` makes the switch refuse the commands that begin with `value`.
        """
        wanted = _fault_of(fault, target, value)
        return EventStream("lab fault", lambda: self._note(lambda lab: inflict(lab, wanted)))

    def heal(self, target: str | None = None) -> EventStream:
        """Undo the faults of a node, a rail, the switch or the controller, or all."""
        return EventStream("lab fault heal", lambda: self._note(lambda lab: heal(lab, target)))

    @property
    def cluster_file(self) -> Path:
        """The cluster file of the lab, which must be up."""
        return folder.chosen_lab(self._name).cluster_file

    @property
    def cluster(self) -> Cluster:
        """The lab as a cluster, for the functions of every verb."""
        return load_cluster(self.cluster_file)

    def __enter__(self) -> Self:
        self.up().result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down().result()

    async def __aenter__(self) -> Self:
        await self.up().wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down().wait()

    async def _status(self) -> AsyncGenerator[Record, None]:
        async with aclosing(status()) as labs:
            async for lab in labs:
                if isinstance(lab, LabStatus) and self._name in (None, lab.subject):
                    yield lab

    async def _note(self, change: Callable[[str], AsyncGenerator[Record, None]]) -> AsyncGenerator[Record, None]:
        """Change the lab, and note that in the runs in progress on it."""
        lab = folder.chosen_lab(self._name).spec.name
        async with aclosing(change(lab)) as records:
            async for record in records:
                if isinstance(record, Event):
                    note_in_runs(lab, [record])
                yield record


def _fault_of(fault: FaultName, target: str, value: str | float | None) -> Fault:
    """Return a fault with its value as a number; `_check` of the lab refuses one that is out of range."""
    if fault == "refuse":
        return Fault(fault, target, text=str(value or ""))
    if fault not in (*WITH_A_RATE, *WITH_A_NUMBER) and value is not None:
        raise UsageError(f"{fault} takes no value, such as {value!r}", hint="leave it out")
    if fault == "slow" and value is None:
        raise UsageError("slow needs a rate", hint="write it as 500M, 1G or 10G")
    if isinstance(value, str):
        value = parse_rate(value) if fault in WITH_A_RATE else parse_percent(value)
    return Fault(fault, target, None if value is None else float(value))
