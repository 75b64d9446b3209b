"""Puts files on nodes, under a name made of their content, and runs this railbed there from them.

What is there already is not sent again, but read and compared every time. See guard for what is trusted, keeper for
what is done on the node.
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
"""Nodes that files are put on at the same time."""


@dataclass(frozen=True)
class Parcel:
    """Files to be on a node."""

    name: str
    """Where they go, below our folder: made of their content."""
    digest: str
    files: Mapping[str, Path]
    sizes: Mapping[str, int]

    def as_message(self) -> dict[str, object]:
        """Return what a keeper has to know of it."""
        size, count = sum(self.sizes.values()), len(self.files)
        return {"name": self.name, "digest": self.digest, "bytes": size, "files": count}


def own_code() -> Parcel:
    """Return this railbed: what its nodes run is what is run here, whatever they have installed."""
    root = Path(railbed.__file__).parent
    return parcel("code", {f"railbed/{path.relative_to(root)}": path for path in root.rglob("*") if _is_source(path)})


def parcel(kind: str, files: Mapping[str, Path]) -> Parcel:
    """Return files as a parcel; the same content makes the same parcel, whenever and wherever."""
    sums, sizes = {}, {}
    for name, path in sorted(files.items()):
        with path.open("rb") as file:
            sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
            sizes[name] = file.tell()
    digest = content_hash(sums)
    return Parcel(f"{kind}/{digest[:16]}", digest, dict(sorted(files.items())), sizes)


@dataclass(frozen=True)
class Shipped:
    """How a shipment ended."""

    bases: dict[str, str] = field(default_factory=dict)
    """Where our folder is on each node that has everything, as a path without `~` and links."""
    free: dict[str, int] = field(default_factory=dict)
    """Bytes that were free there before."""
    failed: dict[str, DeviceError] = field(default_factory=dict)
    """The other nodes, and why."""


async def ship(
    fleet: Fleet, nodes: Mapping[str, Node], workdir: str, parcels: Sequence[Parcel], *, folder: str
) -> Shipped:
    """Put parcels on nodes, into our folder in `workdir`, and make for each node its own `folder/NODE` there."""
    shipped = Shipped()
    places = asyncio.Semaphore(AT_ONCE)

    async def put(name: str, python: str) -> None:
        try:
            async with places:
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
    order = {name: place for place, name in enumerate(nodes)}
    in_order = dict(sorted(shipped.bases.items(), key=lambda pair: order[pair[0]]))
    return Shipped(in_order, shipped.free, shipped.failed)


async def _put(  # noqa: PLR0917  (all that is put, and where)
    fleet: Fleet, node: str, python: str, workdir: str, parcels: Sequence[Parcel], folder: str
) -> tuple[str, int]:
    wanted = [parcel.as_message() for parcel in parcels]
    request = {"do": "put", "workdir": workdir, "parcels": wanted, "folder": folder}
    async with file_client(fleet, node, python, request) as remote:
        there = await remote.answer("base")
        for parcel in parcels:
            if parcel.name in there["missing"]:
                await _send(remote, parcel)
                await remote.answer("stored")
        await remote.answer("done")
    return str(there["path"]), int(there["free"])


async def _send(remote: FileClient, parcel: Parcel) -> None:
    for name, path in parcel.files.items():
        await remote.write(encode({"name": name, "size": parcel.sizes[name]}))
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                await remote.write(piece)


def module_command(python: str, code: str, module: str, arguments: Iterable[str]) -> str:
    """Return the command that runs a module of the railbed in the folder `code` of a node.

    Modules come from that folder and Python's own ones: none from the folder it is started in, and no byte code is
    written, which a full disk would cut short. What torch compiles is not kept in /tmp, where others could put theirs.
    """
    compiled = str(PurePosixPath(code).parent.parent / COMPILED)
    settings = {
        "PYTHONPATH": code,
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": compiled,
    }
    given = " ".join(f"{name}={quote_path(value)}" for name, value in settings.items())
    return f"env {given} {quote_path(python)} -m {module} {' '.join(map(quote_path, arguments))}"


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".yaml", ".typed") and "__pycache__" not in path.parts
