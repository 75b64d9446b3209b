"""This machine as the host of a lab: root, programs, memory, commands, processes, SSH keys.

Processes of a lab outlive railbed. They are found by a unique argument and the folder they run in, even if the railbed
that started them was killed before it could write anything down.

Keys are made for one lab, with the known_hosts file that lets a client trust its devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from railbed.errors import DeviceError, ToolMissing
from railbed.lab.model import StoredLab

COMMAND_SECONDS = 60.0
PR_SET_PDEATHSIG = 1
SBIN = "/usr/sbin:/sbin"
T = TypeVar("T")


class HostFault(DeviceError):
    """This machine could not do what a lab needs."""


def need_root(what: str) -> None:
    """Refuse an account that may not make namespaces."""
    if os.geteuid() != 0:
        raise HostFault(f"{what} needs root", hint="run railbed with sudo, or as root")


def need_programs(packages: Mapping[str, str]) -> None:
    """Refuse a machine that lacks programs, or files named by their path, and name the command that installs them."""
    missing = [name for name in packages if not (Path(name).exists() if name.startswith("/") else program_path(name))]
    if missing:
        install = " ".join(sorted({packages[name] for name in missing}))
        raise ToolMissing(
            f"the lab needs {', '.join(missing)}",
            hint=f"`apt-get install --no-install-recommends {install}` installs what is missing",
        )


def program_path(program: str) -> str | None:
    """Return the path of a program, including those only on root's PATH."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SBIN}")


def available_megabytes() -> int:
    """Return how much memory is available."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


async def run(
    command: Sequence[str],
    *,
    stdin: str = "",
    check: bool = True,
    seconds: float = COMMAND_SECONDS,
    cwd: Path | None = None,
    on_start: Callable[[int], None] = lambda _: None,
) -> str:
    """Run a program and return its output; a failure raises HostFault with the first line of its error output."""
    program = program_path(command[0])
    if not program:
        raise ToolMissing(f"{command[0]} is not installed")
    process = await asyncio.create_subprocess_exec(
        program,
        *command[1:],
        stdin=PIPE if stdin else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        start_new_session=True,
        preexec_fn=_end_with_railbed,
    )
    on_start(process.pid)
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin.encode() if stdin else None)
    except TimeoutError as error:
        raise HostFault(f"`{' '.join(command[:4])} …` did not end within {seconds:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if check and process.returncode != 0:
        lines = (err or out).decode(errors="replace").strip().splitlines()
        raise HostFault(f"`{' '.join(command[:4])}` failed: {lines[0] if lines else f'exit {process.returncode}'}")
    return out.decode(errors="replace")


async def together(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Run coroutines concurrently; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]


def _end_with_railbed() -> None:
    """Let the kernel kill this process when railbed dies: a survivor would interfere with the next clean-up."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes that may be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def end(pids: Sequence[int], *, seconds: float = 10.0) -> None:
    """Kill processes and wait until they are gone."""
    send(pids, signal.SIGKILL)
    try:
        async with asyncio.timeout(seconds):
            while any(map(is_alive, pids)):  # noqa: ASYNC110  (a process that is not our child tells nobody)
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        left = ", ".join(str(pid) for pid in pids if is_alive(pid))
        raise HostFault(f"processes {left} cannot be ended") from error


def detach(lab: StoredLab, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process in the lab's folder that continues when railbed ends."""
    with log.open("ab") as output:
        return subprocess.Popen(
            arguments,
            cwd=lab.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def forget(process: subprocess.Popen[bytes]) -> None:
    """Release a process that continues on its own, so that Python does not warn when the object is collected."""
    if process.poll() is None:
        process.returncode = 0


def find_processes(lab: StoredLab, tag: str) -> list[int]:
    """Return the processes in a lab's folder with that argument."""
    pids = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                folder.name.isdigit()
                and tag.encode() in (folder / "cmdline").read_bytes().split(b"\0")
                and (folder / "cwd").readlink() == lab.folder.resolve()
                and is_own(folder)
            ):
                pids.append(int(folder.name))
    return pids


def is_own(process: Path) -> bool:
    """Whether this user started a process, from its folder in /proc: anybody can start some with the same arguments.

    The owner of that folder does not show it: su and the like belong to root, whoever starts them.
    """
    lines = (process / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.startswith("Uid:") and int(line.split()[1]) == os.geteuid() for line in lines)


def is_stopped(pid: int) -> bool:
    """Whether a process does not run: it is stopped by a signal, or has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t", "Z")
    except OSError:
        return True


async def make_keys(lab: StoredLab) -> None:
    """Make the key that logs in, and a host key for every device."""
    names = {lab.key: f"railbed lab {lab.spec.name}"} | {lab.host_key(name): name for name in lab.devices}
    await together(_make_key(path, name) for path, name in names.items())


def write_known_hosts(lab: StoredLab, doors: Mapping[str, tuple[str, int]]) -> None:
    """Write the host key of each device with the address and port it listens on."""
    lines = []
    for name, (host, port) in doors.items():
        kind, key, *_ = lab.host_key(name).with_suffix(".host_key.pub").read_text(encoding="ascii").split()
        lines.append(f"{host if port == 22 else f'[{host}]:{port}'} {kind} {key}\n")
    lab.known_hosts.write_text("".join(lines), encoding="ascii")


async def _make_key(path: Path, comment: str) -> None:
    await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
