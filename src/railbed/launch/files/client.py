"""The client of a node's file server: sends the server's program, one request, and reads the answers.

With it, files that runs left on nodes are listed, and removed on request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import railbed
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.messages import LINE_LIMIT, Message, decode, encode
from railbed.parsing.text import quote_words
from railbed.transport.base import Program

SILENCE_SECONDS = 60.0
"""How long the server may be silent: at first for login and the start of Python; later it reports regularly."""
HERE = "launch.files"
COMMON = ("model.writers", f"{HERE}.guard", f"{HERE}.server")
SERVER = COMMON
RELAY = (*COMMON, f"{HERE}.partial", f"{HERE}.relay")
"""Programs, as the modules that are sent to a node; each needs only those before it."""
INVALID = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError)
"""What an answer with fields of other kinds raises where it is used."""
START = """\
import json, sys, types
for name, text in json.loads({modules!r}).items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""


class NodeRefuses(DeviceError):
    """A node's folder cannot be used: it belongs to another user, others can write to it, or its disk is full."""


class NodeDiskFull(NodeRefuses):
    """The disk of a node has no space for the files."""


class NodeSilent(NodeRefuses):
    """A node's file server ended without a reason, or does not answer: a second attempt may succeed."""


@cache
def _program(names: Sequence[str]) -> bytes:
    """Return the program: modules of railbed, each under its own name; the last one is run."""
    folder = Path(railbed.__file__).parent
    files = {f"railbed.{name}": folder.joinpath(*name.split(".")) for name in names}
    modules = {name: file.with_suffix(".py").read_text("utf-8") for name, file in files.items()}
    return START.format(modules=json.dumps(modules)).encode()


@asynccontextmanager
async def file_client(
    fleet: Fleet,
    node: str,
    interpreter: Sequence[str],
    request: Mapping[str, object],
    *,
    modules: tuple[str, ...] = SERVER,
) -> AsyncIterator[FileClient]:
    """Start the file server, or another program of this package, on a node with a request.

    Python uses only its own installation: modules of the user or in the current folder are ignored.
    """
    program = _program(modules)
    start = f"import sys; exec(sys.stdin.buffer.read({len(program)}))"
    async with fleet.open(node, f"exec {quote_words(interpreter)} -I -B -c '{start}'") as remote:
        client = FileClient(remote, interpreter)
        await client.write(program + encode(dict(request)))
        try:
            yield client
        except INVALID as error:
            raise NodeRefuses("it sent an answer with missing or wrong fields") from error


class FileClient:
    """The connection to a file server. Every wait is bounded."""

    def __init__(self, program: Program, interpreter: Sequence[str]) -> None:
        self._program = program
        self._interpreter = interpreter
        self._buffer = bytearray()
        self.patience = SILENCE_SECONDS
        """How long the program may be silent."""

    async def write(self, data: bytes) -> None:
        """Send data."""
        async with _limit(SILENCE_SECONDS):
            await self._program.write(data)

    async def answer(self, *kinds: str) -> Message:
        """Return the next answer of one of these kinds; raise NodeRefuses if it refuses or ends."""
        while True:
            message = decode(await self._line()) or {}
            if message.get("kind") == "refused":
                error = NodeDiskFull if message.get("disk_full") else NodeRefuses
                raise error(str(message.get("message")), hint=str(message.get("hint") or ""))
            if message.get("kind") in kinds:
                return message

    async def raw(self, size: int) -> AsyncIterator[bytes]:
        """Yield that many bytes."""
        if size < 0:
            raise ValueError(f"{size} bytes")
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
                raise NodeRefuses("it sent something other than an answer", hint="does its login shell print much?")
            await self._read()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def _read(self) -> None:
        async with _limit(self.patience):
            piece = await self._program.read(1)
            if piece:
                self._buffer += piece
                return
            stderr = (await self._program.read(2)).decode(errors="replace").strip().splitlines()
        raise NodeSilent(
            f"its Python could not store files: {stderr[-1] if stderr else 'the connection ended'}",
            hint=f"it was started as {' '.join(self._interpreter)} (`python` and `launcher` in the cluster file)",
        )


@asynccontextmanager
async def _limit(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NodeSilent(f"no message for {seconds:g} s while files were copied there") from None


AT_ONCE = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFolder:
    """Where railbed's folder is on a node."""

    interpreter: Sequence[str]
    """The words that start Python there."""
    workdir: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """Something left on a node: the files of a run, or code and tokens that runs share."""

    path: str
    """Below railbed's folder: `runs/JOB/NODE`, `code/HASH`, …"""
    size: int
    used: float
    busy: bool
    """It is in use."""

    @classmethod
    def read(cls, message: Message) -> FolderEntry:
        """Read an entry of the file server's list."""
        size, used = int(message["bytes"]), float(message["used"])
        return cls(path=str(message["path"]), size=size, used=used, busy=bool(message["busy"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """railbed's folder on a node."""

    base: str
    """Empty if there is none."""
    disk: str
    """Equal for nodes that share the folder."""
    entries: Sequence[FolderEntry] = ()


async def list_entries(fleet: Fleet, folders: Mapping[str, NodeFolder]) -> dict[str, FolderListing | DeviceError]:
    """Return what is on each node, or why that is unknown."""

    async def ask(node: str) -> FolderListing:
        request = {"do": "entries", "workdir": folders[node].workdir}
        async with file_client(fleet, node, folders[node].interpreter, request) as remote:
            message = await remote.answer("entries")
        entries = tuple(FolderEntry.read(entry) for entry in message["entries"])
        return FolderListing(base=str(message["path"]), disk=str(message["disk"]), entries=entries)

    return await _each(list(folders), ask)


async def remove_entries(
    fleet: Fleet, folders: Mapping[str, NodeFolder], paths: Mapping[str, Sequence[str]]
) -> dict[str, list[FolderEntry] | DeviceError]:
    """Remove entries, and return those that were removed; entries that are now in use stay."""

    async def ask(node: str) -> list[FolderEntry]:
        request = {"do": "remove", "workdir": folders[node].workdir, "paths": list(paths[node])}
        removed = []
        async with file_client(fleet, node, folders[node].interpreter, request) as remote:
            while (message := await remote.answer("removed", "done"))["kind"] == "removed":
                removed.append(FolderEntry.read(message))
        return removed

    return await _each([node for node in paths if paths[node]], ask)


async def _each(nodes: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T | DeviceError]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def answer(node: str) -> T | DeviceError:
        async with slots:
            try:
                return await ask(node)
            except DeviceError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = {node: group.create_task(answer(node)) for node in nodes}
    return {node: task.result() for node, task in tasks.items()}
