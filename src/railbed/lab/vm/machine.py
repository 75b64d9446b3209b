"""The processes of a lab: a QEMU per node, and a hub where more than two nodes share a rail.

They are found by an argument of their own and the folder they run in, also those of a railbed that was killed before it
could write anything down.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from railbed.lab.host import HostFault, end, is_alive, run
from railbed.lab.model import Lab, LabNode
from railbed.lab.vm import cache, qmp
from railbed.lab.vm.hardware import BASE, DISK, IDENTITY, MONITOR, RAM, SAVED, SERIAL_LOG, Cable, Machine, command
from railbed.lab.vm.identity import write_identity
from railbed.lab.vm.state import IGNORE_SHARED, hardware_of

PORT = 2222
READY = b"railbed: ready"
QEMU_LOG = "qemu.log"
HUB_LOG = "hub.log"
READY_SECONDS = 300.0
RESUME_SECONDS = 60.0
LEAST_WITH_HUB = 3


def door(node: LabNode) -> str:
    """Return the address of this machine behind which a node's SSH is."""
    return f"127.77.{node.lab}.{node.number}"


def node_folder(lab: Lab, node: LabNode) -> Path:
    """Return where the files of a node's machine lie."""
    return lab.folder / node.name


async def make(lab: Lab, node: LabNode) -> None:
    """Write a node's disks."""
    folder = node_folder(lab, node)
    folder.mkdir(exist_ok=True)
    write_identity(lab, node, folder / IDENTITY)
    backing = cache.chosen(lab.folder) / BASE
    await run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(backing), "-F", "qcow2", str(folder / DISK)])


async def resume(lab: Lab, node: LabNode) -> None:
    """Start a node from the saved machine, and wait until it is itself."""
    state = cache.chosen(lab.folder)
    started = _start(lab, node, ram=state / RAM)
    async with _monitor(lab, node, started) as monitor:
        await monitor.execute("migrate-set-capabilities", capabilities=IGNORE_SHARED)
        await monitor.execute("migrate-incoming", uri=f"exec:cat {shlex.quote(str(state / SAVED))}")
        await _until_running(monitor, node)
    await _until_ready(lab, node, started)


async def _until_running(monitor: qmp.Qmp, node: LabNode) -> None:
    deadline = time.monotonic() + RESUME_SECONDS
    while (status := (await monitor.execute("query-status"))["status"]) != "running":
        if time.monotonic() > deadline:
            raise HostFault(f"{node.name} did not go on from the saved machine: it is {status}")
        if status == "paused":
            await monitor.execute("cont")
        await asyncio.sleep(0.02)


async def boot(lab: Lab, node: LabNode) -> None:
    """Start a node from its disk, and wait until it is ready."""
    await _until_ready(lab, node, _start(lab, node, ram=None))


def start_hub(lab: Lab) -> None:
    """Start the hub where there has to be one and is none."""
    if lab.spec.nodes >= LEAST_WITH_HUB and not _processes(lab, _hub_tag(lab)):
        arguments = [_hub_tag(lab), str(lab.spec.nodes), str(lab.spec.rails)]
        _detach(lab, [sys.executable, "-P", "-m", "railbed.lab.vm.hub", *arguments], lab.folder / HUB_LOG)


@dataclass(frozen=True, slots=True)
class _Started:
    pid: int
    seen: int
    """How much the console had said before."""


def _start(lab: Lab, node: LabNode, *, ram: Path | None) -> _Started:
    machine = describe(lab, node, ram=ram)
    folder = node_folder(lab, node)
    for path in _sockets(lab, node):
        path.unlink(missing_ok=True)
        _hidden(path).unlink(missing_ok=True)
    (folder / MONITOR).unlink(missing_ok=True)
    (folder / QEMU_LOG).unlink(missing_ok=True)
    log = folder / SERIAL_LOG
    seen = log.stat().st_size if log.exists() else 0
    pid = _detach(lab, [*command(machine), *(["-incoming", "defer"] if ram else [])], folder / QEMU_LOG)
    return _Started(pid, seen)


def describe(lab: Lab, node: LabNode, *, ram: Path | None) -> Machine:
    """Return the machine of a node. With exactly two nodes the cables need no hub in between."""
    state = cache.chosen(lab.folder)
    other = f"node{3 - node.number}" if lab.spec.nodes == 2 else "hub"
    return Machine(
        name=_name(lab, node),
        hardware=hardware_of(state),
        image=state.parent.parent,
        folder=node.name,
        ram=str(ram) if ram else None,
        door=f"{door(node)}:{PORT}",
        cables=[Cable(f"{node.name}-{name}", f"{other}-{name}") for name in lab.rails],
    )


def _detach(lab: Lab, arguments: list[str], log: Path) -> int:
    """Start a process that goes on when railbed ends."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            arguments,
            cwd=lab.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    # It is not ours to wait for; Python need not complain when it forgets it.
    process.returncode = 0
    return process.pid


@contextlib.asynccontextmanager
async def _monitor(lab: Lab, node: LabNode, started: _Started) -> AsyncIterator[qmp.Qmp]:
    """Connect to a QEMU that is starting; where it ended, what it said is the error."""
    try:
        async with qmp.connected(node_folder(lab, node) / MONITOR, ended=lambda: not is_alive(started.pid)) as monitor:
            yield monitor
    except HostFault as error:
        if not is_alive(started.pid):
            raise _ended(lab, node) from error
        raise


async def _until_ready(lab: Lab, node: LabNode, started: _Started) -> None:
    """Wait until the console says so. Asking its SSH instead would make it start a process each time."""
    deadline = time.monotonic() + READY_SECONDS
    log = node_folder(lab, node) / SERIAL_LOG
    while READY not in (said := log.read_bytes()[started.seen :] if log.exists() else b""):
        if not is_alive(started.pid):
            raise _ended(lab, node)
        if time.monotonic() > deadline:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise HostFault(f"{node.name} was not ready within {READY_SECONDS:g} s; the last it said: {last}")
        await asyncio.sleep(0.05)


def _ended(lab: Lab, node: LabNode) -> HostFault:
    try:
        lines = (node_folder(lab, node) / QEMU_LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return HostFault(
        f"{node.name} ended: {lines[-1] if lines else 'QEMU said nothing'}",
        hint=f"where this stays so, remove {cache.chosen(lab.folder)}: it is made anew",
    )


def hide_sockets(lab: Lab, node: LabNode) -> None:
    """Let frames to a frozen node be lost: QEMUs whose frames nobody takes would try again without a pause."""
    for path in _sockets(lab, node):
        with contextlib.suppress(FileNotFoundError):
            path.rename(_hidden(path))


def show_sockets(lab: Lab, node: LabNode) -> None:
    """Let frames reach a node again."""
    for path in _sockets(lab, node):
        with contextlib.suppress(FileNotFoundError):
            _hidden(path).rename(path)


def _sockets(lab: Lab, node: LabNode) -> list[Path]:
    return [lab.folder / f"{node.name}-{name}" for name in lab.rails]


def _hidden(path: Path) -> Path:
    return path.with_name(f"{path.name}.frozen")


async def end_node(lab: Lab, node: LabNode) -> None:
    """Take the power from a node."""
    await end(processes(lab, node))


async def end_all(lab: Lab) -> None:
    """End all processes of a lab."""
    await end([pid for node in lab.nodes for pid in processes(lab, node)] + _processes(lab, _hub_tag(lab)))


def is_running(lab: Lab, node: LabNode) -> bool:
    """Whether a node has power."""
    return bool(processes(lab, node))


async def is_frozen(lab: Lab, node: LabNode) -> bool:
    """Whether a node is stopped where it is."""
    async with qmp.connected(node_folder(lab, node) / MONITOR, seconds=5) as monitor:
        return bool((await monitor.execute("query-status", seconds=5))["status"] == "paused")


def processes(lab: Lab, node: LabNode) -> list[int]:
    """Return the processes of a node."""
    return _processes(lab, f"guest={_name(lab, node)}")


def _name(lab: Lab, node: LabNode) -> str:
    return f"railbed-{lab.id}-{node.name}"


def _hub_tag(lab: Lab) -> str:
    return f"railbed-{lab.id}-hub"


def _processes(lab: Lab, tag: str) -> list[int]:
    """Return the processes in a lab's folder that have an argument."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                folder.name.isdigit()
                and tag.encode() in (folder / "cmdline").read_bytes().split(b"\0")
                and (folder / "cwd").readlink() == lab.folder.resolve()
            ):
                found.append(int(folder.name))
    return found
