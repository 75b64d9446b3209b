"""The machines: addresses, system, processors, memory, disks, and the versions of what trains on them."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model import events
from railbed.present.wording import NOT_KNOWN, moment
from railbed.report.blocks import Block, Cell, Code, Heading, MarkCell, TableBlock, TextBlock, byte_count
from railbed.report.document import Section
from railbed.report.handover.data import HandoverData

MACHINES = ("node", "reached as", "processor", "cores", "memory", "training folder, free", "read")
BMC = "BMC, power"
"""A column of clusters whose file has BMCs."""
VERSIONS = ("node", "system", "kernel", "Python", "torch", "built for", "GPU driver", "its CUDA")
DISKS = ("node", "disk", "model", "size", "kind", "connected by")


def show(data: HandoverData) -> Sequence[Block]:
    """Show three tables: machines, versions, disks."""
    machines, disks = data.of(events.MachineListed), data.of(events.DiskListed)
    has_bmcs = any(machine.bmc for machine in machines)
    columns = (*MACHINES, BMC) if has_bmcs else MACHINES
    rows = [(*_machine(machine), *([_bmc(machine)] if has_bmcs else [])) for machine in machines]
    blocks: list[Block] = [
        TableBlock(columns, rows, numbers=MACHINES[3:6]),
        Heading("Versions"),
        TableBlock(VERSIONS, [_versions(machine) for machine in machines]),
        Heading("Disks"),
    ]
    if disks:
        return [*blocks, TableBlock(DISKS, [_disk(disk) for disk in disks], numbers=DISKS[3:4])]
    return [
        *blocks,
        TextBlock(data.with_file("No disks were read yet: `railbed check` reads them on a cluster with rails.")),
    ]


def _machine(machine: events.MachineListed) -> tuple[Cell, ...]:
    virtual = f" ({machine.hypervisor})" if machine.hypervisor else ""
    return (
        machine.subject,
        Code(machine.host),
        f"{machine.processor or NOT_KNOWN}{virtual}",
        _cores(machine),
        byte_count(machine.memory_bytes) if machine.memory_bytes is not None else NOT_KNOWN,
        byte_count(machine.workdir_free_bytes) if machine.workdir_free_bytes is not None else NOT_KNOWN,
        moment(machine.read) if machine.read is not None else MarkCell("never", "notice"),
    )


def _bmc(machine: events.MachineListed) -> Cell:
    return f"{machine.bmc}, {machine.power or NOT_KNOWN}" if machine.bmc else "none"


def _cores(machine: events.MachineListed) -> str:
    if machine.cores is None:
        return f"{machine.threads} threads" if machine.threads is not None else NOT_KNOWN
    return f"{machine.cores} in {machine.sockets}" if (machine.sockets or 1) > 1 else str(machine.cores)


def _versions(machine: events.MachineListed) -> tuple[Cell, ...]:
    without_torch = "not installed" if machine.python else NOT_KNOWN
    return (
        machine.subject,
        *(value or NOT_KNOWN for value in (machine.system, machine.kernel, machine.python)),
        machine.torch or without_torch,
        *(value or "" for value in (machine.torch_build, machine.gpu_driver, machine.gpu_cuda)),
    )


def _disk(disk: events.DiskListed) -> tuple[Cell, ...]:
    node, _, name = disk.subject.partition("/")
    kind = {True: "rotates", False: "solid state", None: NOT_KNOWN}[disk.rotational]
    model = disk.model or "none reported"
    return (node, Code(name), model, byte_count(disk.size_bytes), kind, disk.transport or NOT_KNOWN)


SECTION = Section(name="machines", title="Machines", order=40, show=show)
