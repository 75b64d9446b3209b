"""Our end of a node's keeper: it is sent there, asked for one thing, and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.files import guard
from railbed.launch.protocol import LINE_LIMIT, Message, decode, encode
from railbed.parsing.shell import quote_path
from railbed.transport.base import Program

SILENCE_SECONDS = 60.0
"""How long a keeper may say nothing: at first it logs in and starts Python, later it says that it works."""
START = """\
import json, sys, types
for name, text in json.loads({modules!r}).items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""


class NodeRefuses(DeviceError):
    """A node's folder cannot be used: it is another user's, others can write to it, or its disk is full."""


@cache
def _program() -> bytes:
    """Return the program: the guard and the keeper, each as the module that it is here."""
    folder = Path(guard.__file__).parent
    modules = {
        f"railbed.launch.files.{name}": (folder / f"{name}.py").read_text("utf-8") for name in ("guard", "server")
    }
    return START.format(modules=json.dumps(modules)).encode()


@asynccontextmanager
async def file_client(fleet: Fleet, node: str, python: str, request: Mapping[str, object]) -> AsyncIterator[FileClient]:
    """Start a keeper on a node with a request.

    Of Python only its own installation is used: what a user or the current folder adds is not looked at.
    """
    program = _program()
    start = f"import sys; exec(sys.stdin.buffer.read({len(program)}))"
    async with fleet.open(node, f"exec {quote_path(python)} -I -B -c '{start}'") as remote:
        conversation = FileClient(remote, python)
        await conversation.write(program + encode(dict(request)))
        yield conversation


class FileClient:
    """A keeper that answers. Every wait is bounded."""

    def __init__(self, program: Program, python: str) -> None:
        self._program = program
        self._python = python
        self._buffer = bytearray()

    async def write(self, data: bytes) -> None:
        """Give it data."""
        async with _patience():
            await self._program.write(data)

    async def answer(self, *kinds: str) -> Message:
        """Return the next answer of one of these kinds; raise NodeRefuses where it refuses or ends."""
        while True:
            message = decode(await self._line()) or {}
            if message.get("kind") == "refused":
                raise NodeRefuses(str(message.get("message")), hint=str(message.get("hint") or ""))
            if message.get("kind") in kinds:
                return message

    async def raw(self, size: int) -> AsyncIterator[bytes]:
        """Yield that many bytes."""
        while size:
            if not self._buffer:
                await self._read()
            piece = bytes(self._buffer[:size])
            del self._buffer[: len(piece)]
            size -= len(piece)
            yield piece

    async def _line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_LIMIT:
                raise NodeRefuses("what it answers is no answer", hint="does its login shell print much?")
            await self._read()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def _read(self) -> None:
        async with _patience():
            piece = await self._program.read(1)
            if piece:
                self._buffer += piece
                return
            complaint = (await self._program.read(2)).decode(errors="replace").strip().splitlines()
        raise NodeRefuses(
            f"its Python did not keep our files: {complaint[-1] if complaint else 'the connection ended'}",
            hint=f"it was started as {self._python} (`python` of the node in the cluster file)",
        )


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            yield
    except TimeoutError:
        raise NodeRefuses(f"no word for {SILENCE_SECONDS:g} s while files were put there") from None
