"""Keeps our folder on a node: checks it, puts files there, lists and removes them, sends them back.

It is sent to the node and run there, before any file of ours there can be trusted, by a Python that looks for modules
nowhere but in its own installation. So it uses the standard library and the guard, which is sent with it.

A request is one JSON line, and so is every answer: `base`, `stored`, `entries`, `removed`, `texts`, `file`, `done`;
`working` about once a second while it takes long; `refused` with a sentence and what to do about it.
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
from collections.abc import Iterable, Iterator, Mapping
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
    opened,
    refuse_unsafe,
    remove_tree,
)

LOCK = "lock"
COMPILED = "compiled"
"""What torch compiles: in /tmp, where it would be otherwise, others could have put theirs."""
DEPTHS = {"code": 1, "tokens": 1, COMPILED: 0, "runs": 2, "bench": 2}
"""What is kept below our folder, and how deep the folders lie that are removed as a whole."""
WORKED_IN = ("runs", "bench")
NEW, OLD = "new.", "old."
BLOCK = 4096
TEXT_BYTES = 1 << 20
SPARE_BYTES, SPARE_FILES = 4 << 20, 100
"""What must be free beyond what is sent: ranks write their orders and logs."""
FRESH_SECONDS = 60.0
"""Files that were used a moment ago may be about to be used again: a run begins with them."""
FULL = {errno.ENOSPC: "is full", errno.EDQUOT: "is full for this account (its quota is used up)"}
ELSEWHERE = "set `training.workdir` to another disk"


def put(request: Mapping[str, Any], source: BinaryIO) -> None:
    """Say which parcels are missing or damaged, take those from `source`, and put each in its place when it is whole.

    parcels: of each name, digest, bytes, files. folder: that of the run, made where it is not there.
    """
    base = _base(request, create=True)
    parcels = {parcel["name"]: parcel for parcel in request["parcels"]}
    with _explained(base):
        _need_room(base, [])
        with _locked(base):
            _remove_unfinished(base)
            missing = [name for name in parcels if not _is_there(base, parcels[name])]
        _need_room(base, [parcels[name] for name in missing])
        open_below(base, COMPILED, create=True)
        if request.get("folder"):
            for _ in files_in(open_below(base, request["folder"], create=True)):
                _tell_working()
        answer(kind="base", path=str(base), missing=missing, free=_free(base)[0])
        for name in missing:
            _receive(base, parcels[name], source)
            answer(kind="stored", name=name)


def entries(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Say what is in our folder: of each entry its path, bytes, when it was used, and whether it is in use."""
    base = open_base(request["workdir"], create=False)
    listed = [] if base is None else _listed(base)
    disk = f"{os.statvfs(base).f_fsid:x}/{base.stat().st_ino}" if base else ""
    answer(kind="entries", path=str(base or ""), disk=disk, entries=listed)


def remove(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Remove entries, other than those in use; what they link to is left alone."""
    base = _base(request, create=False)
    with _locked(base):
        for entry in _listed(base):
            path = base / str(entry["path"])
            if entry["path"] in request["paths"] and not entry["busy"]:
                remove_tree(path)
                if path.parent.parent != base:
                    with contextlib.suppress(OSError):  # other nodes with the same disk may have theirs in it
                        path.parent.rmdir()
                answer(kind="removed", **entry)


def read(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Say what stands in the small files of one name, wherever they are in a folder below ours."""
    base = open_base(request["workdir"], create=False)
    texts = {}
    if base and (base / request["folder"]).is_dir():
        folder = open_below(base, request["folder"], create=False)
        for name, about in files_in(folder):
            if Path(name).name == request["name"] and about.st_size <= TEXT_BYTES:
                with opened(folder / name) as file:
                    texts[name] = file.read(TEXT_BYTES).decode("utf-8", "replace")
    answer(kind="texts", texts=texts)


def send(request: Mapping[str, Any], _source: BinaryIO) -> None:
    """Send all files of a folder below ours, each after a line with its name and size."""
    folder = open_below(_base(request, create=False), request["folder"], create=False)
    for name, about in sorted(files_in(folder)):
        answer(kind="file", name=name, size=about.st_size)
        with opened(folder / name) as file:
            left = about.st_size
            while left and (piece := file.read(min(PIECE, left))):
                sys.stdout.buffer.write(piece)
                left -= len(piece)
        if left:
            raise OSError(errno.EIO, "became shorter while it was read", str(folder / name))


def answer(**message: object) -> None:
    """Say something to the one who asked."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def _base(request: Mapping[str, Any], *, create: bool) -> Path:
    base = open_base(request["workdir"], create=create)
    if base is None:
        raise Refusal(f"there is no {BASE} in {request['workdir']}")
    return base


def _is_there(base: Path, parcel: Mapping[str, Any]) -> bool:
    """Say whether a parcel is in its place and whole; what stands there and is not what it should be is removed."""
    kind, _, own = parcel["name"].partition("/")
    place = open_below(base, kind, create=True) / own
    if not os.path.lexists(place):
        return False
    refuse_unsafe(place, place.lstat())
    if place.is_dir() and content_of(place, _tell_working) == parcel["digest"]:
        os.utime(place)
        return True
    away = base / f"{OLD}{secrets.token_hex(8)}"
    place.rename(away)
    remove_tree(away)
    return False


def _receive(base: Path, parcel: Mapping[str, Any], source: BinaryIO) -> None:
    """Write a parcel beside its place, and move it there when it is what it should be."""
    beside = base / f"{NEW}{secrets.token_hex(8)}"
    beside.mkdir(0o700)
    held = os.open(beside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for _ in range(parcel["files"]):
            _receive_file(beside, source)
        if content_of(beside, _tell_working) != parcel["digest"]:
            raise Refusal(f"what was received is not what was sent for {parcel['name']}", "try again")
        with _locked(base):
            if not _is_there(base, parcel):
                beside.rename(base / parcel["name"])
    finally:
        os.close(held)
        if beside.exists():
            remove_tree(beside)


def _receive_file(folder: Path, source: BinaryIO) -> None:
    about = json.loads(source.readline() or b"null")
    if not isinstance(about, dict):
        raise Refusal("the connection ended before all was received")
    path = folder / about["name"]
    make(path.parent)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        left = about["size"]
        while left and (piece := source.read(min(PIECE, left))):
            file.write(piece)
            left -= len(piece)
            _tell_working()
    if left:
        raise Refusal("the connection ended before all was received")


def _remove_unfinished(base: Path) -> None:
    """Remove what a transfer that was cut short has left; one that goes on holds its folder."""
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


def _listed(base: Path) -> list[dict[str, object]]:
    """Return what can be removed as a whole, and nothing that railbed does not make."""
    found = [_entry(base, path) for part, depth in DEPTHS.items() for path in _at_depth(base, part, depth)]
    works = any(entry["busy"] for entry in found)
    return [
        {**entry, "busy": entry["busy"] or (works and not str(entry["path"]).startswith(WORKED_IN))} for entry in found
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
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                about = Path(at, name).lstat()
                used, size = max(used, about.st_mtime), size + about.st_blocks * 512
        _tell_working()
    held = is_held(folder)
    doubtful = held is None or not path.startswith(WORKED_IN)
    busy = held or (doubtful and time.time() - used < FRESH_SECONDS)
    return {"path": path, "bytes": size, "used": used, "busy": busy}


@contextlib.contextmanager
def _locked(base: Path) -> Iterator[None]:
    """Let nobody else look at or move what is in our folder meanwhile: two nodes may share a disk."""
    descriptor = os.open(base / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):  # not every network file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _free(base: Path) -> tuple[int, int | None]:
    """Return the bytes and files that the login user can still write; None where files are not counted."""
    about = os.statvfs(base)
    return about.f_bavail * about.f_frsize, about.f_favail if about.f_files else None


def _need_room(base: Path, parcels: Iterable[Mapping[str, Any]]) -> None:
    """Refuse to begin what the disk has no room for."""
    wanted = list(parcels)
    files = 2 * sum(parcel["files"] for parcel in wanted) + SPARE_FILES  # with their folders, and to spare
    size = sum(parcel["bytes"] for parcel in wanted) + files * BLOCK + SPARE_BYTES
    free, free_files = _free(base)
    lack = ""
    if free < size:
        lack = f"{_mb(free)} are free and {_mb(size)} are needed"
    elif free_files is not None and free_files < files:
        lack = f"there is room for {free_files} more files (inodes) and {files} are needed"
    if lack:
        hint = f"make room (`railbed runs --clean` removes what earlier runs left), or {ELSEWHERE}"
        raise Refusal(f"the disk under {base} {FULL[errno.ENOSPC]}: {lack}", hint)


@contextlib.contextmanager
def _explained(base: Path) -> Iterator[None]:
    """Say of a disk that is full that it is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        words = f"the disk under {base} {FULL[error.errno]}: {_mb(_free(base)[0])} are free"
        raise Refusal(words, f"make room, or {ELSEWHERE}") from error


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


_told = [0.0]


def _tell_working() -> None:
    if time.monotonic() - _told[0] > 1.0:
        _told[0] = time.monotonic()
        answer(kind="working")


def main() -> None:
    """Do what is asked for on standard input."""
    os.umask(0o077)
    source = sys.stdin.buffer
    request = json.loads(source.readline())
    requests = {"put": put, "entries": entries, "remove": remove, "read": read, "send": send}
    try:
        requests[request["do"]](request, source)
    except Refusal as refusal:
        answer(kind="refused", message=str(refusal), hint=refusal.hint)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        answer(kind="refused", message=f"{error.strerror or error}{where}", hint="")
    else:
        answer(kind="done")
