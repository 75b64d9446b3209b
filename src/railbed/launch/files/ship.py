"""Copies files to nodes, under names derived from their content, and runs this version of railbed from them there.

Files that exist there already are not sent again, but verified every time. See `guard` for what is trusted, `server`
for what happens on the node.

Modules are one archive, which Python imports from: one file to send and to verify instead of hundreds. It has the
sources, and the byte code that Python has stored for them here, so that nodes with the same version do not compile them
at every start. Other versions ignore the byte code. The same content always makes the same archive.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import py_compile
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path, PurePosixPath
from zipfile import ZipFile, ZipInfo

import railbed
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch.files.client import FileClient, file_client
from railbed.launch.files.guard import PIECE, content_hash
from railbed.launch.files.partial import PieceHasher, Pieces
from railbed.launch.files.server import COMPILED
from railbed.launch.messages import encode
from railbed.parsing.text import python_words, quote_path

HEADER_BYTES = 16
BY_TIME, BY_HASH = bytes(4), (1).to_bytes(4, "little")
"""Flags of byte code: valid for a source of a certain time and size, or by the hash of its source, unchecked."""


def archive(modules: Mapping[str, Path]) -> bytes:
    """Return an archive of modules, by their path in it."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as file:
        for name, path in sorted(modules.items()):
            source = path.read_bytes()
            file.writestr(ZipInfo(name), source)
            if code := _byte_code(path):
                file.writestr(ZipInfo(f"{name}c"), MAGIC_NUMBER + BY_HASH + source_hash(source) + code)
    return buffer.getvalue()


def _byte_code(path: Path) -> bytes:
    """Return the byte code of a source as it is stored here, without its header; empty if it cannot be stored."""
    stored = Path(cache_from_source(str(path)))
    if not _is_current(stored, path) and not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):  # an installation that cannot be written to
            py_compile.compile(str(path), quiet=2)
    return stored.read_bytes()[HEADER_BYTES:] if _is_current(stored, path) else b""


def _is_current(stored: Path, path: Path) -> bool:
    try:
        with stored.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError:
        return False
    return header == MAGIC_NUMBER + BY_TIME + _time_and_size(path.stat())


def _time_and_size(about: os.stat_result) -> bytes:
    return b"".join((int(value) & 0xFFFFFFFF).to_bytes(4, "little") for value in (about.st_mtime, about.st_size))


ON_NODES = (
    "__init__.py",
    "bench/__init__.py",
    "bench/collective",
    "catalog.py",
    "collective",
    "errors.py",
    "launch",
    "model",
    "train",
    "transport/__init__.py",
    "transport/netlink.py",
)
"""The parts of railbed that run on nodes, with everything they import."""
ARCHIVE = "railbed.zip"
AT_ONCE = 16
"""Nodes that receive files at the same time."""
Content = Path | bytes
"""A file here, or the bytes themselves."""
LARGE_BYTES = 8 << 20
"""Parcels from this size on are passed on from node to node, and a copy that broke is continued."""
TITLES = {"models": "the model", "tokens": "the data"}


@dataclass(frozen=True)
class Parcel:
    """Files for a node."""

    name: str
    """Path below railbed's folder, derived from their content."""
    digest: str
    files: Mapping[str, Content]
    sizes: Mapping[str, int]
    pieces: Pieces | None = None
    """Its pieces, if it is large."""

    @property
    def title(self) -> str:
        """Return what it is, in words."""
        return TITLES.get(self.name.partition("/")[0], "files")

    def read_piece(self, index: int) -> bytes:
        """Return the content of a piece, as it is now."""
        assert self.pieces is not None
        return b"".join(_read_at(self.files[span.name], span.offset, span.length) for span in self.pieces.spans(index))

    def as_message(self) -> dict[str, object]:
        """Return the message for the file server."""
        size, count = sum(self.sizes.values()), len(self.files)
        return {"name": self.name, "digest": self.digest, "bytes": size, "files": count}


def own_code() -> Parcel:
    """Return the code that nodes run: the version of this machine, regardless of what they have installed."""
    return parcel("code", {ARCHIVE: archive(modules_for_nodes())})


def modules_for_nodes() -> dict[str, Path]:
    """Return the sources of railbed that nodes get, by their path below the folder that contains the package."""
    root = Path(railbed.__file__).parent
    paths = [path for part in ON_NODES for path in _sources(root / part)]
    return {f"railbed/{path.relative_to(root)}": path for path in paths}


def parcel(kind: str, files: Mapping[str, Content]) -> Parcel:
    """Return files as a parcel; the same content always makes the same parcel."""
    sums, sizes = {}, {}
    hasher = PieceHasher()
    for name, content in sorted(files.items()):
        size = 0
        for piece in _pieces(content):
            hasher.update(piece)
            size += len(piece)
        sums[name], sizes[name] = hasher.end_file(), size
    overall = content_hash(sums)
    pieces = Pieces(tuple(sizes.items()), hasher.finish()) if sum(sizes.values()) >= LARGE_BYTES else None
    return Parcel(f"{kind}/{overall[:16]}", overall, dict(sorted(files.items())), sizes, pieces)


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
    fleet: Fleet,
    interpreters: Mapping[str, Sequence[str]],
    workdir: str,
    parcels: Sequence[Parcel],
    *,
    folder: str = "",
) -> Shipped:
    """Copy parcels to railbed's folder in `workdir` on nodes, and create `folder/NODE` there, if one is named.

    `interpreters` has the words that start Python on each of the nodes.
    """
    shipped = Shipped()
    slots = asyncio.Semaphore(AT_ONCE)

    async def put(name: str, interpreter: Sequence[str]) -> None:
        try:
            async with slots:
                base, free = await _put(
                    fleet, name, interpreter, workdir, parcels, f"{folder}/{name}" if folder else ""
                )
                shipped.bases[name], shipped.free[name] = base, free
        except DeviceError as error:
            shipped.failed[name] = error

    try:
        async with asyncio.TaskGroup() as group:
            for name, interpreter in interpreters.items():
                group.create_task(put(name, interpreter))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    in_order = {name: shipped.bases[name] for name in interpreters if name in shipped.bases}
    return Shipped(in_order, shipped.free, shipped.failed)


async def _put(  # noqa: PLR0917  (what is put, and where)
    fleet: Fleet, node: str, interpreter: Sequence[str], workdir: str, parcels: Sequence[Parcel], folder: str
) -> tuple[str, int]:
    wanted = [parcel.as_message() for parcel in parcels]
    request = {"do": "put", "workdir": workdir, "parcels": wanted, "folder": folder}
    async with file_client(fleet, node, interpreter, request) as remote:
        answer = await remote.answer("base")
        for parcel in parcels:
            if parcel.name in answer["missing"]:
                await _send(remote, parcel)
                await remote.answer("stored")
        await remote.answer("done")
    return str(answer["path"]), int(answer["free"])


async def _send(remote: FileClient, parcel: Parcel) -> None:
    for name, content in parcel.files.items():
        await remote.write(encode({"name": name, "size": parcel.sizes[name]}))
        for piece in _pieces(content):
            await remote.write(piece)


def _read_at(content: Content, offset: int, length: int) -> bytes:
    if isinstance(content, bytes):
        return content[offset : offset + length]
    with content.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _pieces(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def module_command(interpreter: Sequence[str], code: str, module: str, arguments: Iterable[str]) -> str:
    """Return the command that runs a module of railbed from the archive `code` on a node.

    Modules come from there and from Python's own folders, never from the current folder. Python 3.10 has no setting for
    that, so it starts in the root folder, unless a launcher may need the one in which the login starts. No byte code is
    written, since a full disk would truncate it. Compiled code of torch stays out of /tmp, where other users could put
    files; nor do its kernels leave a list of their names there for a profiler.
    """
    compiled = str(PurePosixPath(code).parents[2] / COMPILED)
    settings = {
        "PYTHONPATH": code,
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": compiled,
        "ONEDNN_JIT_PROFILE": "0",
    }
    words = " ".join([python_words(interpreter, settings), "-m", module, *map(quote_path, arguments)])
    is_relative = "/" in interpreter[-1] and not interpreter[-1].startswith(("/", "~"))
    return f"exec {words}" if is_relative or len(interpreter) > 1 else f"cd / && exec {words}"


def _sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
