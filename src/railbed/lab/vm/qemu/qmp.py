"""Talks to a running QEMU over its own protocol: one JSON object per line, on a socket in the node's folder.

Why a machine does not come up follows from that, its console, QEMU's output and the free space on this machine's disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.lab.host import HostFault

SECONDS = 120.0
"""A busy machine answers late; one that ended is noticed at once."""
CONNECT_PAUSE = 0.01
LONGEST_LINE = 1 << 20


class Qmp:
    """A connection that is ready for commands."""

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._name = name
        self._reader = reader
        self._writer = writer

    async def execute(self, command: str, *, seconds: float = SECONDS, **arguments: object) -> Any:  # noqa: ANN401  (what JSON holds)
        """Run a command and return its answer; events in between are ignored."""
        message = {
            "execute": command,
            "arguments": {name.replace("_", "-"): value for name, value in arguments.items()},
        }
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(json.dumps(message).encode() + b"\n")
                await self._writer.drain()
                while True:
                    answer = await self.read()
                    if "error" in answer:
                        raise HostFault(f"{self._name}: QEMU refused {command}: {answer['error'].get('desc')}")
                    if "return" in answer:
                        return answer["return"]
        except TimeoutError as error:
            raise HostFault(f"{self._name}: QEMU did not answer {command} within {seconds:g} s") from error
        except OSError as error:
            raise HostFault(f"{self._name}: QEMU ended during {command}") from error

    async def read(self) -> dict[str, Any]:
        """Return the next message."""
        try:
            line = await self._reader.readline()
            message = json.loads(line) if line else None
        except ValueError as error:
            raise HostFault(f"{self._name}: QEMU sent invalid JSON") from error
        if not isinstance(message, dict):
            raise HostFault(f"{self._name}: QEMU ended" if message is None else f"{self._name}: QEMU sent {message!r}")
        return message


@asynccontextmanager
async def connect_qmp(
    socket: Path, *, seconds: float = SECONDS, ended: Callable[[], bool] = lambda: False
) -> AsyncIterator[Qmp]:
    """Connect to a QEMU, which may still be starting, or have `ended` already."""
    name = socket.parent.name
    folder, writer = -1, None
    try:
        try:
            # The path of a socket is limited to 107 bytes; through the open folder it is always short enough.
            folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            async with asyncio.timeout(seconds):
                reader, writer = await _connect(f"/proc/self/fd/{folder}/{socket.name}", ended)
                qmp = Qmp(name, reader, writer)
                await qmp.read()
        except TimeoutError as error:
            raise HostFault(f"{name}: QEMU cannot be reached: no answer within {seconds:g} s") from error
        except OSError as error:
            raise HostFault(f"{name}: QEMU cannot be reached: {error.strerror}") from error
        await qmp.execute("qmp_capabilities", seconds=seconds)
        yield qmp
    finally:
        if folder >= 0:
            os.close(folder)
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _connect(path: str, ended: Callable[[], bool]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
        except (FileNotFoundError, ConnectionRefusedError):
            if ended():
                raise
            await asyncio.sleep(CONNECT_PAUSE)


PANIC = re.compile(r"Kernel panic - not syncing[^\n]*")
GUEST_MEMORY = re.compile(r"Out of memory: [^\n]*")
LEAST_FREE = 16 << 20
LAST_LINES = 2
REMEDIES = {
    signal.SIGKILL: "the kernel kills what takes too much memory: see `dmesg`; --memory gives each node less",
    signal.SIGBUS: "the disk that holds the machine's memory is full: make room, or RAILBED_CACHE=FOLDER",
}


class NotBooted(HostFault):
    """A guest stopped, or made no progress, for no reason outside of QEMU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFailure:
    """What is known about a machine that failed."""

    name: str
    console: str
    """Console output since the start."""
    folder: Path
    """Folder with its disk."""
    exit: int | None = None
    """The exit code of QEMU, where it ended."""
    qemu_output: Sequence[str] = ()


def has_panicked(console: str) -> bool:
    """Whether the kernel of a machine panicked."""
    return PANIC.search(console) is not None


def boot_failure(evidence: BootFailure, waited: str = "", hint: str = "") -> HostFault:
    """Return the error for a machine that ended, or that did not get ready in time."""
    name = evidence.name
    if match := PANIC.search(evidence.console):
        return NotBooted(f"{name}: its kernel panicked: {match[0]}", hint=hint)
    if shutil.disk_usage(evidence.folder).free < LEAST_FREE:
        room = "make room, or RAILBED_CACHE=FOLDER names another place"
        return HostFault(f"{name} ran out of disk space in {evidence.folder}", hint=room)
    if evidence.exit is not None:
        why, remedy = _ending(evidence.exit)
        last = f": {evidence.qemu_output[-1]}" if evidence.qemu_output else ""
        fault = HostFault if remedy else NotBooted
        return fault(f"{name}: QEMU {why}{last}", hint=remedy or hint)
    if match := GUEST_MEMORY.search(evidence.console):
        return HostFault(f"{name} is short of memory: {match[0]}", hint="--memory MB gives each node more")
    lines = [line.strip() for line in evidence.console.splitlines() if line.strip()][-LAST_LINES:]
    last = f"last lines on its console: {' / '.join(lines)}" if lines else "its console is empty"
    return NotBooted(f"{name} is not ready, and {waited}; {last}", hint=hint)


def _ending(code: int) -> tuple[str, str]:
    if code >= 0:
        return f"ended with exit code {code}", ""
    try:
        number = signal.Signals(-code)
    except ValueError:
        return f"was ended by signal {-code}", ""
    return f"was ended by {number.name}", REMEDIES.get(number, "")
