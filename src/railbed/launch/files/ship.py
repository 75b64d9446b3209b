"""Copies files to nodes, under names derived from their content, and runs this version of railbed from them there.

Files that exist there already are not sent again, but verified every time. See `guard` for what is trusted, `server`
for what happens on the node.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import railbed
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.files.client import FileClient, file_client
from railbed.launch.files.guard import PIECE, content_hash
from railbed.launch.files.server import COMPILED
from railbed.launch.protocol import encode
from railbed.model.cluster import Node
from railbed.parsing.shell import quote_path

AT_ONCE = 16
"""Nodes that receive files at the same time."""


@dataclass(frozen=True)
class Parcel:
    """Files for a node."""

    name: str
    """Path below railbed's folder, derived from their content."""
    digest: str
    files: Mapping[str, Path]
    sizes: Mapping[str, int]

    def as_message(self) -> dict[str, object]:
        """Return the message for the file server."""
        size, count = sum(self.sizes.values()), len(self.files)
        return {"name": self.name, "digest": self.digest, "bytes": size, "files": count}


def own_code() -> Parcel:
    """Return railbed's own code: nodes run the same version as this machine, regardless of what they have installed."""
    root = Path(railbed.__file__).parent
    return parcel("code", {f"railbed/{path.relative_to(root)}": path for path in root.rglob("*") if _is_source(path)})


def parcel(kind: str, files: Mapping[str, Path]) -> Parcel:
    """Return files as a parcel; the same content always makes the same parcel."""
    sums, sizes = {}, {}
    for name, path in sorted(files.items()):
        with path.open("rb") as file:
            sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
            sizes[name] = file.tell()
    digest = content_hash(sums)
    return Parcel(f"{kind}/{digest[:16]}", digest, dict(sorted(files.items())), sizes)


@dataclass(frozen=True)
class Shipped:
    """The result of a shipment."""

    bases: dict[str, str] = field(default_factory=dict)
    """railbed's folder on each node that has everything, as a path without `~` and links."""
    free: dict[str, int] = field(default_factory=dict)
    """Bytes that were free on each node before."""
    failed: dict[str, DeviceError] = field(default_factory=dict)
    """The other nodes, and why."""


async def ship(
    fleet: Fleet, nodes: Mapping[str, Node], workdir: str, parcels: Sequence[Parcel], *, folder: str
) -> Shipped:
    """Copy parcels to railbed's folder in `workdir` on nodes, and create `folder/NODE` there for each node."""
    shipped = Shipped()
    slots = asyncio.Semaphore(AT_ONCE)

    async def put(name: str, python: str) -> None:
        try:
            async with slots:
                base, free = await _put(fleet, name, python, workdir, parcels, f"{folder}/{name}")
                shipped.bases[name], shipped.free[name] = base, free
        except DeviceError as error:
            shipped.failed[name] = error

    try:
        async with asyncio.TaskGroup() as group:
            for name, node in nodes.items():
                group.create_task(put(name, node.python))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    in_order = {name: shipped.bases[name] for name in nodes if name in shipped.bases}
    return Shipped(in_order, shipped.free, shipped.failed)


async def _put(  # noqa: PLR0917  (what is put, and where)
    fleet: Fleet, node: str, python: str, workdir: str, parcels: Sequence[Parcel], folder: str
) -> tuple[str, int]:
    wanted = [parcel.as_message() for parcel in parcels]
    request = {"do": "put", "workdir": workdir, "parcels": wanted, "folder": folder}
    async with file_client(fleet, node, python, request) as remote:
        answer = await remote.answer("base")
        for parcel in parcels:
            if parcel.name in answer["missing"]:
                await _send(remote, parcel)
                await remote.answer("stored")
        await remote.answer("done")
    return str(answer["path"]), int(answer["free"])


async def _send(remote: FileClient, parcel: Parcel) -> None:
    for name, path in parcel.files.items():
        await remote.write(encode({"name": name, "size": parcel.sizes[name]}))
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                await remote.write(piece)


def module_command(python: str, code: str, module: str, arguments: Iterable[str]) -> str:
    """Return the command that runs a module of railbed from the folder `code` of a node.

    Modules come from that folder and from Python's own, never from the current folder. No byte code is written, since
    a full disk would truncate it. Compiled code of torch stays out of /tmp, where other users could put files.
    """
    compiled = str(PurePosixPath(code).parent.parent / COMPILED)
    settings = {
        "PYTHONPATH": code,
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": compiled,
    }
    variables = " ".join(f"{name}={quote_path(value)}" for name, value in settings.items())
    return f"env {variables} {quote_path(python)} -m {module} {' '.join(map(quote_path, arguments))}"


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".yaml", ".typed") and "__pycache__" not in path.parts
