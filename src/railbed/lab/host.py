"""This machine as the host of a lab: root, programs, memory, and commands run here."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from railbed.errors import DeviceError, ToolMissing

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
