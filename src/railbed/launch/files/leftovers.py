"""Lists files that runs left on nodes, and removes them on request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.files.client import file_client
from railbed.launch.protocol import Message

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
