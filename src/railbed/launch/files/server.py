"""Serves railbed's folder on a node: verifies it, stores files there, lists and removes them, sends them back.

It is sent to the node and run there before any file on the node can be trusted, by a Python that loads modules only
from its own installation. So it uses the standard library, the guard and the storage, which are sent with it.

A request is one JSON line, and so is every answer: `base`, `stored`, `entries`, `removed`, `texts`, `file`, `done`;
`working` about once a second during long operations; `refused` with a sentence and a hint.

Parcels are in that folder, too, with locks, if there is space for them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from railbed.launch.files.guard import (
    BASE,
    PIECE,
    Refusal,
    content_of,
    files_in,
    is_held,
    make,
    open_base,
    open_below,
    open_guarded,
    refuse_unsafe,
    remove_tree,
)

LOCK = "lock"
NEW, OLD = "new.", "old."
PARTIAL = "partial"
"""Folder of large parcels that are not complete yet; a later copy continues them."""
BLOCK = 4096
SPARE_BYTES, SPARE_FILES = 4 << 20, 100
"""Free space needed in addition to the files sent: ranks write their job files and logs."""
FULL = {errno.ENOSPC: "is full", errno.EDQUOT: "is full for this account (its quota is used up)"}
ELSEWHERE = "set `training.workdir` to another disk"


def answer(**message: object) -> None:
    """Write one answer."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def serve(requests: Mapping[str, Callable[[Mapping[str, Any], BinaryIO], None]]) -> None:
    """Serve the request on standard input: `do` names the function."""
    os.umask(0o077)
    source = sys.stdin.buffer
    request = json.loads(source.readline())
    try:
        requests[request["do"]](request, source)
    except Refusal as refusal:
        answer_refusal(refusal)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        answer_refusal(Refusal(f"{error.strerror or error}{where}"))
    else:
        answer(kind="done")


def answer_refusal(refusal: Refusal) -> None:
    """Write the reason why a request is not served."""
    answer(kind="refused", message=str(refusal), hint=refusal.hint, disk_full=refusal.disk_full)


def base_of(request: Mapping[str, Any], *, create: bool) -> Path:
    """Return railbed's folder in the folder that a request names."""
    base = open_base(request["workdir"], create=create)
    if base is None:
        raise Refusal(f"there is no {BASE} in {request['workdir']}")
    return base


def is_stored(base: Path, parcel: Mapping[str, Any]) -> bool:
    """Return whether a parcel is stored and intact; a damaged one is removed."""
    kind, _, own = parcel["name"].partition("/")
    place = open_below(base, kind, create=True) / own
    if not os.path.lexists(place):
        return False
    refuse_unsafe(place, place.lstat())
    if place.is_dir() and content_of(place, report_working) == parcel["digest"]:
        os.utime(place)
        return True
    away = base / f"{OLD}{secrets.token_hex(8)}"
    place.rename(away)
    remove_tree(away)
    return False


@contextlib.contextmanager
def lock_base(base: Path) -> Iterator[None]:
    """Lock railbed's folder: two nodes may share a disk."""
    descriptor = os.open(base / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):  # not every network file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def free_space(base: Path) -> tuple[int, int | None]:
    """Return the bytes and files that the login user can still write; None if files are not counted."""
    about = os.statvfs(base)
    return about.f_bavail * about.f_frsize, about.f_favail if about.f_files else None


def need_room(base: Path, parcels: Iterable[Mapping[str, Any]]) -> None:
    """Refuse to store files if the disk does not have enough space."""
    wanted = list(parcels)
    files = 2 * sum(parcel["files"] for parcel in wanted) + SPARE_FILES  # with their folders, and some to spare
    size = sum(parcel["bytes"] for parcel in wanted) + files * BLOCK + SPARE_BYTES
    free, free_files = free_space(base)
    shortage = ""
    if free < size:
        shortage = f"{_mb(free)} are free, {_mb(size)} are needed"
    elif free_files is not None and free_files < files:
        shortage = f"{free_files} files (inodes) are free, {files} are needed"
    if shortage:
        message = f"the disk under {base} {FULL[errno.ENOSPC]}: {shortage}"
        raise Refusal(message, f"free some space, or {ELSEWHERE}", disk_full=True)


@contextlib.contextmanager
def explain_full_disk(base: Path) -> Iterator[None]:
    """Turn the errors of a full disk into a refusal that names it."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        message = f"the disk under {base} {FULL[error.errno]}: {_mb(free_space(base)[0])} are free"
        raise Refusal(message, f"free some space, or {ELSEWHERE}", disk_full=True) from error


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


_last_working = [0.0]


def report_working() -> None:
    """Answer that a long operation continues, about once a second."""
    if time.monotonic() - _last_working[0] > 1.0:
        _last_working[0] = time.monotonic()
        answer(kind="working")


COMPILED = "compiled"
"""Folder of compiled code of torch. Its default is /tmp, where other users could have put files."""
DEPTHS = {"code": 1, "tokens": 1, "models": 1, "wheels": 1, PARTIAL: 1, COMPILED: 0, "runs": 2, "bench": 2}
"""The folders below railbed's, and the depth of the folders that are removed as a unit."""
WORKED_IN = ("runs", "bench")
TEXT_BYTES = 1 << 20
RECENT_SECONDS = 60.0
"""Files that were used this recently may be needed by a run that is just starting."""


def put(request: Mapping[str, Any], source: BinaryIO) -> None:
    """Report which parcels are missing or damaged, read those from `source`, and store each once it is complete.

    The request has `parcels`, with name, digest, bytes and files of each, and `folder`, the run's, which is created.
    """
    base = base_of(request, create=True)
    parcels = {parcel["name"]: parcel for parcel in request["parcels"]}
    with explain_full_disk(base):
        need_room(base, [])
        with lock_base(base):
            _remove_unfinished(base)
            missing = [name for name in parcels if not is_stored(base, parcels[name])]
        need_room(base, [parcels[name] for name in missing])
        open_below(base, COMPILED, create=True)
        if request.get("folder"):
            for _ in files_in(open_below(base, request["folder"], create=True)):
                report_working()
        answer(kind="base", path=str(base), missing=missing, free=free_space(base)[0])
        for name in missing:
            _receive(base, parcels[name], source)
            answer(kind="stored", name=name)


def entries(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """List railbed's folder: path, bytes and last use of each entry, and whether it is in use."""
    base = open_base(request["workdir"], create=False)
    listed = [] if base is None else _list_entries(base)
    disk = f"{os.statvfs(base).f_fsid:x}/{base.stat().st_ino}" if base else ""
    answer(kind="entries", path=str(base or ""), disk=disk, entries=listed)


def remove(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Remove entries, except those in use; links are not followed."""
    base = base_of(request, create=False)
    with lock_base(base):
        for entry in _list_entries(base):
            path = base / str(entry["path"])
            if entry["path"] in request["paths"] and not entry["busy"]:
                remove_tree(path)
                if path.parent.parent != base:
                    with contextlib.suppress(OSError):  # nodes that share the disk may have folders in it
                        path.parent.rmdir()
                answer(kind="removed", **entry)


def read(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Send the content of all small files with one name in a folder below railbed's."""
    base = open_base(request["workdir"], create=False)
    texts = {}
    if base and (base / request["folder"]).is_dir():
        folder = open_below(base, request["folder"], create=False)
        for name, about in files_in(folder):
            if Path(name).name == request["name"] and about.st_size <= TEXT_BYTES:
                with open_guarded(folder / name) as file:
                    texts[name] = file.read(TEXT_BYTES).decode("utf-8", "replace")
    answer(kind="texts", texts=texts)


def send(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Send all files of a folder below railbed's, each after a line with its name and size."""
    folder = open_below(base_of(request, create=False), request["folder"], create=False)
    for name, about in sorted(files_in(folder)):
        answer(kind="file", name=name, size=about.st_size)
        with open_guarded(folder / name) as file:
            left = about.st_size
            while left and (piece := file.read(min(PIECE, left))):
                sys.stdout.buffer.write(piece)
                left -= len(piece)
        if left:
            raise OSError(errno.EIO, "became shorter while it was read", str(folder / name))


def _receive(base: Path, parcel: Mapping[str, Any], source: BinaryIO) -> None:
    """Write a parcel to a temporary folder, and move it into place once its content is verified."""
    beside = base / f"{NEW}{secrets.token_hex(8)}"
    with lock_base(base):  # otherwise a node that shares the disk may mistake it for an unfinished transfer
        beside.mkdir(0o700)
        held = os.open(beside, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        for _ in range(parcel["files"]):
            _receive_file(beside, source)
        if content_of(beside, report_working) != parcel["digest"]:
            raise Refusal(
                f"{parcel['name']} was damaged in transit: its content differs from what was sent", "try again"
            )
        with lock_base(base):
            if not is_stored(base, parcel):
                beside.rename(base / parcel["name"])
    finally:
        os.close(held)
        if beside.exists():
            remove_tree(beside)


def _receive_file(folder: Path, source: BinaryIO) -> None:
    about = json.loads(source.readline() or b"null")
    if not isinstance(about, dict):
        raise Refusal("the connection ended before everything was received")
    path = folder / about["name"]
    make(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        left = about["size"]
        while left and (piece := source.read(min(PIECE, left))):
            file.write(piece)
            left -= len(piece)
            report_working()
    if left:
        raise Refusal("the connection ended before everything was received")


def _remove_unfinished(base: Path) -> None:
    """Remove files of interrupted transfers; a transfer that is still running locks its folder."""
    for path in base.iterdir():
        if path.name.startswith(OLD):
            remove_tree(path)
        elif path.name.startswith(NEW):
            with contextlib.suppress(OSError):
                held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(path)
                finally:
                    os.close(held)


def _list_entries(base: Path) -> list[dict[str, object]]:
    """Return the entries that can be removed as a unit, and nothing that railbed did not create."""
    listed = [_entry(base, path) for part, depth in DEPTHS.items() for path in _at_depth(base, part, depth)]
    any_busy = any(entry["busy"] for entry in listed)
    return [
        {**entry, "busy": entry["busy"] or (any_busy and not str(entry["path"]).startswith(WORKED_IN))}
        for entry in listed
    ]


def _at_depth(base: Path, path: str, depth: int) -> Iterator[str]:
    folder = base / path
    if folder.is_symlink() or not folder.is_dir() or folder.lstat().st_uid != os.geteuid():
        return
    if not depth:
        yield path
        return
    for name in sorted(below.name for below in folder.iterdir()):
        yield from _at_depth(base, f"{path}/{name}", depth - 1)


def _entry(base: Path, path: str) -> dict[str, object]:
    folder = base / path
    used, size = folder.lstat().st_mtime, 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                about = Path(parent, name).lstat()
                used, size = max(used, about.st_mtime), size + about.st_blocks * 512
        report_working()
    held = is_held(folder)
    is_uncertain = held is None or not path.startswith(WORKED_IN)
    busy = held or (is_uncertain and time.time() - used < RECENT_SECONDS)
    return {"path": path, "bytes": size, "used": used, "busy": busy}


def main() -> None:
    """Serve the request on standard input."""
    serve({"put": put, "entries": entries, "remove": remove, "read": read, "send": send})
