"""Talks to a running QEMU over its own protocol: one JSON object per line, on a socket in the node's folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
async def connected(
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
