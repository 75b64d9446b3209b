"""Decides which files in railbed's folder on a node can be trusted: those that nobody else can have written.

A user who can write to a folder can replace its content. So railbed's folder, everything used below it and every folder
above it must belong to the login user (those above: or to root) and be writable by nobody else. A folder such as /tmp,
where others can write but only remove their own files, may be above it. A file that passes cannot change hands before
it is used, so one check is enough. Standard library and `railbed.model.writers` only: see server.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from railbed.model.writers import other_writers, user_name

BASE = ".railbed"
"""railbed's folder, in a node's training folder."""
PIECE = 1 << 20


class Refusal(Exception):
    """A file is not used, or a request not served; the message is the reason, and `hint` the solution."""

    def __init__(self, message: str, hint: str = "", *, disk_full: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.disk_full = disk_full


def open_base(workdir: str, *, create: bool) -> Path | None:
    """Return railbed's folder below `workdir`, with links resolved; None if it does not exist and `create` is false."""
    work = Path(os.path.realpath(Path(workdir).expanduser()))
    base = work / BASE
    if create:
        make(work)
    if base.is_symlink():
        if base.lstat().st_uid != 0:
            _refuse_foreign(base, base.lstat())
        base = Path(os.path.realpath(base))
    if not create and not os.path.lexists(base):
        return None
    for ancestor in base.parents:
        _refuse_open_ancestor(ancestor)
    if create:
        make(base)
    _refuse_unsafe_folder(base)
    return base


def open_below(base: Path, path: str, *, create: bool) -> Path:
    """Return a folder below railbed's, after checking each folder on its path."""
    inside = base
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            raise Refusal(f"{path!r} is not a folder below railbed's")
        inside /= part
        if create:
            make(inside)
        _refuse_unsafe_folder(inside)
    return inside


def make(folder: Path) -> None:
    """Create a folder and its parents, accessible only to the login user; existing ones stay as they are."""
    with contextlib.suppress(FileExistsError):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


def files_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every file below a safe folder by its path there, and an empty folder with a `/` after its name.

    Raise Refusal for anything that is neither file nor folder, belongs to somebody else, or can be written by others.
    """
    pending = [folder]
    while pending:
        current = pending.pop()
        names = list(current.iterdir())
        for path in names:
            about = path.lstat()
            refuse_unsafe(path, about)
            if stat.S_ISDIR(about.st_mode):
                pending.append(path)
            else:
                yield str(path.relative_to(folder)), about
        if not names and current != folder:
            yield f"{current.relative_to(folder)}/", current.lstat()


def content_of(folder: Path, working: Callable[[], None]) -> str:
    """Return the hash of a folder's content, names included: anything added, missing or changed changes it."""
    sums = {}
    for name, about in files_in(folder):
        sums[name] = "" if name.endswith("/") else _file_hash(folder / name, about, working)
    return content_hash(sums)


def content_hash(sums: Mapping[str, str]) -> str:
    """Return the hash of several files from their names and hashes."""
    return hashlib.sha256(json.dumps(sorted(sums.items())).encode()).hexdigest()


def _file_hash(path: Path, about: os.stat_result, working: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    with open_guarded(path) as file:
        if os.fstat(file.fileno()).st_ino != about.st_ino:
            raise Refusal(f"{path} was replaced while it was checked")
        while piece := file.read(PIECE):
            digest.update(piece)
            working()
    return digest.hexdigest()


def open_guarded(path: Path) -> BinaryIO:
    """Open a file for reading, but not through a link."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0)


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder with its content; links are removed, never followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def hold(folder: Path) -> int:
    """Mark a folder as in use, for as long as the returned descriptor is open."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # not every network file system has locks
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor


def is_held(folder: Path) -> bool | None:
    """Return whether a folder is in use; None if the file system has no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def _refuse_open_ancestor(path: Path) -> None:
    about = path.lstat()
    advice = f"set `training.workdir` to one of your own folders that is not below {path}"
    if about.st_uid not in {0, os.geteuid()}:
        raise Refusal(f"{path} belongs to {user_name(about.st_uid)}, who could replace what is in it", advice)
    who = other_writers(path, about)
    if who and not about.st_mode & stat.S_ISVTX:
        raise Refusal(f"{path} can be written by {who}, who could replace what is in it", advice)


def _refuse_unsafe_folder(path: Path) -> None:
    about = path.lstat()
    refuse_unsafe(path, about)
    if not stat.S_ISDIR(about.st_mode):
        raise Refusal(f"{path} is not a folder", f"move it away: `mv {path} {path}.away`")


def refuse_unsafe(path: Path, about: os.stat_result) -> None:
    """Raise Refusal unless it is a file or folder of the login user that nobody else can write to."""
    _refuse_foreign(path, about)
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        kind = "a link" if stat.S_ISLNK(about.st_mode) else "not a file"
        raise Refusal(f"{path} is {kind}, which railbed never creates there", f"look at it, then `rm {path}`")
    if who := other_writers(path, about):
        mode = stat.S_IMODE(about.st_mode)
        raise Refusal(
            f"{path} can be written by {who} (mode {mode:04o}): it is not used",
            f"check that everything in it is yours, then `chmod -R go-w {path}`; or remove it",
        )


def _refuse_foreign(path: Path, about: os.stat_result) -> None:
    if about.st_uid != os.geteuid():
        owner, login = user_name(about.st_uid), user_name(os.geteuid())
        raise Refusal(
            f"{path} belongs to {owner}, and the login user is {login}: it is not used",
            "remove it, or set `training.workdir` to one of your own folders",
        )
