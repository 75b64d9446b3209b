"""Parcels in railbed's folder on a node: whether they are stored there, space for them, and locks; and answers.

Standard library only: see server.
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

from railbed.launch.files.guard import BASE, Refusal, content_of, open_base, open_below, refuse_unsafe, remove_tree

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
def locked(base: Path) -> Iterator[None]:
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
def explained(base: Path) -> Iterator[None]:
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
