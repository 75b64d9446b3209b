"""The processes of a lab: a QEMU per node, and a hub where more than two nodes share a rail."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from railbed.lab.host import HostFault, detach, end, find_processes, forget, run
from railbed.lab.model import LabNode, StoredLab
from railbed.lab.steps import Patience, ProcessSigns
from railbed.lab.vm import cache
from railbed.lab.vm.qemu import qmp
from railbed.lab.vm.qemu.hardware import (
    BASE,
    DISK,
    IDENTITY,
    MONITOR,
    RAM,
    SAVED,
    SERIAL_LOG,
    Machine,
    QemuCable,
    command,
    write_identity,
)
from railbed.lab.vm.qemu.qmp import BootFailure, boot_failure, has_panicked
from railbed.lab.vm.qemu.state import IGNORE_SHARED, PATIENCE, hardware_of

PORT = 2222
READY = "railbed: ready"
QEMU_LOG = "qemu.log"
HUB_LOG = "hub.log"
READY_PAUSE = 0.05
LEAST_WITH_HUB = 3


def door(node: LabNode) -> str:
    """Return the address of this machine behind which a node's SSH is."""
    return f"127.77.{node.lab}.{node.number}"


def node_folder(lab: StoredLab, node: LabNode) -> Path:
    """Return where the files of a node's machine lie."""
    return lab.folder / node.name


async def make(lab: StoredLab, node: LabNode) -> None:
    """Write a node's disks."""
    folder = node_folder(lab, node)
    folder.mkdir(exist_ok=True)
    write_identity(lab, node, folder / IDENTITY)
    backing = cache.find_saved_machine(lab.folder) / BASE
    await run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(backing), "-F", "qcow2", str(folder / DISK)])


async def resume(lab: StoredLab, node: LabNode) -> None:
    """Start a node from the saved machine, and wait until it is itself."""
    state = cache.find_saved_machine(lab.folder)
    with _start(lab, node, ram=state / RAM) as started:
        async with _monitor(started) as monitor:
            await monitor.execute("migrate-set-capabilities", capabilities=IGNORE_SHARED)
            await monitor.execute("migrate-incoming", uri=f"exec:cat {shlex.quote(str(state / SAVED))}")
            await _until_running(monitor, started)
        await _until_ready(started)


async def _until_running(monitor: qmp.Qmp, started: Started) -> None:
    patience = started.patience()
    while (status := (await monitor.execute("query-status"))["status"]) != "running":
        if why := patience.at_end():
            name = started.evidence().name
            raise HostFault(f"{name} did not resume from the saved machine: QEMU reports {status}, and {why}")
        if status == "paused":
            await monitor.execute("cont")
        await asyncio.sleep(0.02)


async def boot(lab: StoredLab, node: LabNode) -> None:
    """Start a node from its disk, and wait until it is ready."""
    with _start(lab, node, ram=None) as started:
        await _until_ready(started)


def start_hub(lab: StoredLab) -> None:
    """Start the hub if the lab needs one and it is not running."""
    if lab.spec.nodes >= LEAST_WITH_HUB and not find_processes(lab, _hub_tag(lab)):
        arguments = [_hub_tag(lab), str(lab.spec.nodes), str(lab.spec.rails)]
        hub = [sys.executable, "-P", "-m", "railbed.lab.vm.qemu.hub", *arguments]
        forget(detach(lab, hub, lab.folder / HUB_LOG))


@dataclass(frozen=True, slots=True)
class Started:
    """A QEMU that was just started, until its node is ready."""

    lab: StoredLab
    node: LabNode
    process: subprocess.Popen[bytes]
    log_offset: int
    """Length of the console log before the start."""

    @property
    def folder(self) -> Path:
        """Folder with the files of its machine."""
        return node_folder(self.lab, self.node)

    def console(self) -> str:
        """Return the console output since the start."""
        log = self.folder / SERIAL_LOG
        return log.read_bytes()[self.log_offset :].decode(errors="replace") if log.exists() else ""

    def has_ended(self) -> bool:
        """Whether QEMU is gone."""
        return self.process.poll() is not None

    def patience(self) -> Patience:
        """Return how long to wait for it."""
        quiet, most = PATIENCE[hardware_of(cache.find_saved_machine(self.lab.folder)).accelerator]
        return Patience(ProcessSigns(self.process.pid, self.folder / SERIAL_LOG), quiet=quiet, most=most)

    def evidence(self) -> BootFailure:
        """Collect what shows why it failed."""
        try:
            lines = (self.folder / QEMU_LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return BootFailure(
            name=self.node.name,
            console=self.console(),
            folder=self.folder,
            exit=self.process.poll(),
            qemu_output=lines,
        )

    def failure(self, waited: str = "") -> HostFault:
        """Return the error that explains why it is not ready."""
        again = f"if this persists, remove {cache.find_saved_machine(self.lab.folder)}: the next start rebuilds it"
        return boot_failure(self.evidence(), waited, again)


@contextlib.contextmanager
def _start(lab: StoredLab, node: LabNode, *, ram: Path | None) -> Iterator[Started]:
    """Start a QEMU, and watch it until its node is ready."""
    machine = describe(lab, node, ram=ram)
    folder = node_folder(lab, node)
    for path in _sockets(lab, node):
        path.unlink(missing_ok=True)
        _frozen_path(path).unlink(missing_ok=True)
    (folder / MONITOR).unlink(missing_ok=True)
    (folder / QEMU_LOG).unlink(missing_ok=True)
    log = folder / SERIAL_LOG
    log_offset = log.stat().st_size if log.exists() else 0
    process = detach(lab, [*command(machine), *(["-incoming", "defer"] if ram else [])], folder / QEMU_LOG)
    try:
        yield Started(lab, node, process, log_offset)
    finally:
        forget(process)


def describe(lab: StoredLab, node: LabNode, *, ram: Path | None) -> Machine:
    """Return the machine of a node. With exactly two nodes the cables need no hub in between."""
    state = cache.find_saved_machine(lab.folder)
    other = f"node{3 - node.number}" if lab.spec.nodes == 2 else "hub"
    return Machine(
        name=_name(lab, node),
        hardware=hardware_of(state),
        image=state.parent.parent,
        folder=node.name,
        ram=str(ram) if ram else None,
        door=f"{door(node)}:{PORT}",
        cables=[QemuCable(f"{node.name}-{name}", f"{other}-{name}") for name in lab.rails],
    )


@contextlib.asynccontextmanager
async def _monitor(started: Started) -> AsyncIterator[qmp.Qmp]:
    """Connect to a QEMU that is starting; if it ended, raise the error with its output."""
    try:
        async with qmp.connect_qmp(started.folder / MONITOR, ended=started.has_ended) as monitor:
            yield monitor
    except HostFault as error:
        if started.has_ended():
            raise started.failure() from error
        raise


async def _until_ready(started: Started) -> None:
    """Wait for the line on the console: polling SSH instead would start a process on the node each time."""
    patience = started.patience()
    while READY not in (console := started.console()):
        why = patience.at_end()
        if why or started.has_ended() or has_panicked(console):
            raise started.failure(why)
        await asyncio.sleep(READY_PAUSE)


def hide_sockets(lab: StoredLab, node: LabNode) -> None:
    """Drop frames to a frozen node: otherwise the other QEMUs would retry them in a busy loop."""
    for path in _sockets(lab, node):
        with contextlib.suppress(FileNotFoundError):
            path.rename(_frozen_path(path))


def show_sockets(lab: StoredLab, node: LabNode) -> None:
    """Let frames reach a node again."""
    for path in _sockets(lab, node):
        with contextlib.suppress(FileNotFoundError):
            _frozen_path(path).rename(path)


def _sockets(lab: StoredLab, node: LabNode) -> list[Path]:
    return [lab.folder / f"{node.name}-{name}" for name in lab.rails]


def _frozen_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.frozen")


async def end_node(lab: StoredLab, node: LabNode) -> None:
    """Power off a node."""
    await end(processes(lab, node))


async def end_all(lab: StoredLab) -> None:
    """End all processes of a lab."""
    await end([pid for node in lab.nodes for pid in processes(lab, node)] + find_processes(lab, _hub_tag(lab)))


def is_running(lab: StoredLab, node: LabNode) -> bool:
    """Whether a node has power."""
    return bool(processes(lab, node))


async def is_frozen(lab: StoredLab, node: LabNode) -> bool:
    """Whether a node is frozen."""
    async with qmp.connect_qmp(node_folder(lab, node) / MONITOR, seconds=5) as monitor:
        return bool((await monitor.execute("query-status", seconds=5))["status"] == "paused")


def processes(lab: StoredLab, node: LabNode) -> list[int]:
    """Return the processes of a node."""
    return find_processes(lab, f"guest={_name(lab, node)}")


def _name(lab: StoredLab, node: LabNode) -> str:
    return f"railbed-{lab.id}-{node.name}"


def _hub_tag(lab: StoredLab) -> str:
    return f"railbed-{lab.id}-hub"
