"""Puts files on nodes, under a name made of their content: what is there already is not sent again."""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import railbed
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.transport.base import Command

CHUNK = 256 * 1024
SEND_SECONDS = 600.0
BASE = ".railbed"
"""The folder of ours in a node's training folder."""


@dataclass(frozen=True)
class Parcel:
    """Files to be on a node, as an archive."""

    name: str
    """Where they go, below our folder: made of their content."""
    data: bytes


class NotShipped(DeviceError):
    """Files could not be put on a node."""


def own_code() -> Parcel:
    """Return this railbed: what its nodes run is what is run here, whatever they have installed."""
    root = Path(railbed.__file__).parent
    files = {f"railbed/{path.relative_to(root)}": path for path in root.rglob("*") if _is_source(path)}
    return parcel("code", files)


def parcel(kind: str, files: Mapping[str, Path]) -> Parcel:
    """Return files as a parcel; the same content makes the same parcel, whenever and wherever."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, path in sorted(files.items()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    data = archive.getvalue()
    return Parcel(f"{kind}/{hashlib.sha256(data).hexdigest()[:16]}", data)


@dataclass(frozen=True)
class Shipped:
    """How a shipment ended."""

    bases: dict[str, str]
    """Where our folder is on each node that has everything, as a path without `~`."""
    failed: dict[str, str]
    """The other nodes, and why."""


async def ship(fleet: Fleet, nodes: Iterable[str], workdir: str, parcels: Iterable[Parcel]) -> Shipped:
    """Put parcels on nodes, below a folder of ours in `workdir`, which is quoted for a shell."""
    wanted = list(parcels)
    make = f"mkdir -p {workdir}/{BASE} && cd {workdir}/{BASE} && pwd -P"
    there = "".join(f"; if [ -d {one.name} ]; then echo {one.name}; fi" for one in wanted)
    shipped = Shipped({}, {})
    look = Command(key="ship", script=make + there, timeout=20.0)
    async for answer in fleet.run(dict.fromkeys(nodes, (look,))):
        node = answer.device
        output = answer.outputs[0] if answer.outputs else None
        lines = output.text.splitlines() if output else []
        if answer.failure or output is None or not lines:
            said = output.trouble if output else "no answer"
            shipped.failed[node] = answer.failure.reason if answer.failure else said
            continue
        try:
            for one in wanted:
                if one.name not in lines[1:]:
                    await _send(fleet, node, lines[0], one)
            shipped.bases[node] = lines[0]
        except DeviceError as error:
            shipped.failed[node] = error.message
    return shipped


async def _send(fleet: Fleet, node: str, base: str, one: Parcel) -> None:
    # Unpacked beside and moved: two that send the same at the same time do not meet, and half of it is never used.
    unpack = (
        f"cd {shlex.quote(base)} && mkdir -p {one.name.partition('/')[0]} new.$$ && "
        f"head -c {len(one.data)} | tar -x -C new.$$ && {{ mv -T new.$$ {one.name} 2>/dev/null || rm -rf new.$$; }} && "
        "echo there"
    )
    async with fleet.open(node, f"sh -c {shlex.quote(unpack)}") as program:
        for start in range(0, len(one.data), CHUNK):
            await program.write(one.data[start : start + CHUNK])
        said = b""
        while chunk := await program.read(1):
            said += chunk
            if said.strip() == b"there":
                return
        complaint = (await program.read(2)).decode(errors="replace").strip()
        raise NotShipped(f"files cannot be put on {node}: {complaint.splitlines()[-1] if complaint else 'it hung up'}")


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix in (".py", ".yaml", ".typed") and "__pycache__" not in path.parts
