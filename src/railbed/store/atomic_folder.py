"""A folder that appears only when complete: it is filled under a temporary name and renamed at the end.

A file in it is locked meanwhile. A process that is killed leaves the folder, but not the lock: the next one removes the
files and continues with the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from railbed.errors import UsageError, os_reason
from railbed.model import text

PARTIAL = ".partial"
MARK = ".railbed-lock"
"""A file that is locked while the folder is being filled, and shows that the folder is ours."""
HINT = "free some disk space, or choose another folder"


class AtomicFolder:
    """Collects the files of a folder; removes them unless it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}{PARTIAL}")
        self._finished = False
        self._lock: int | None = None

    def __enter__(self) -> Self:
        with _explain_errors(self.path):
            while self._lock is None:
                _refuse_filled(self.path)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = self._lock_folder()
            self.clear()
        return self

    def _lock_folder(self) -> int | None:
        """Return the locked file of the folder; None if the folder was renamed or removed meanwhile."""
        try:
            self.partial.mkdir()
        except FileExistsError:
            if not self._is_ours():
                raise self._refusal("exists already, and no export of this version made it") from None
        try:
            lock = os.open(self.partial / MARK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(lock, self.partial / MARK):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise UsageError(
                f"{self.partial} is being filled by another export", hint="wait for it, or choose another folder"
            ) from None
        except OSError:  # not every network file system has locks
            os.close(lock)
            raise self._refusal("may be in use by another export: its file system has no locks") from None
        os.close(lock)
        return None

    def _is_ours(self) -> bool:
        """Whether the folder is this user's and empty or marked, or was renamed meanwhile."""
        try:
            with self._open_partial() as folder:
                names = os.listdir(folder)  # noqa: PTH208  (by its descriptor)
                return os.fstat(folder).st_uid == os.geteuid() and (not names or MARK in names)
        except FileNotFoundError:
            return True
        except OSError:  # a link, a file, or a folder that only its owner can read
            return False

    def _refusal(self, why: str) -> UsageError:
        return UsageError(f"{self.partial} {why}", hint=f"choose another folder, or remove it: `rm -r {self.partial}`")

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            shutil.rmtree(self.partial, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def need_room(self, size: int) -> None:
        """Raise UsageError if the disk does not have enough free space."""
        with _explain_errors(self.path):
            about = os.statvfs(self.partial)
            free = about.f_bavail * about.f_frsize
        if free < size:
            needed = f"{text.size(size)} are needed, {text.size(free)} are free"
            raise UsageError(f"{self.path} cannot be written: the disk is full: {needed}", hint=HINT)

    @contextmanager
    def new_file(self, name: str) -> Iterator[BinaryIO]:
        """Yield a new file, which is flushed to the disk at the end of the context."""
        if Path(name).name != name or name.startswith("."):
            raise UsageError(f"{name!r} is not a valid file name")
        with _explain_errors(self.path), (self.partial / name).open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        """Remove the files of a failed attempt, even if somebody puts a link in place of the folder meanwhile."""
        with self._open_partial() as folder:
            for name in os.listdir(folder):  # noqa: PTH208  (by its descriptor)
                if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                    shutil.rmtree(name, dir_fd=folder)
                elif name != MARK:
                    os.unlink(name, dir_fd=folder)

    @contextmanager
    def _open_partial(self) -> Iterator[int]:
        """Open the folder that is being filled, but not through a link."""
        descriptor = os.open(self.partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def finish(self) -> None:
        """Rename the folder to its final name."""
        with _explain_errors(self.path):
            self.partial.rename(self.path)  # replaces an empty folder
            self._finished = True
            (self.path / MARK).unlink()


def refuse_filled(path: Path) -> None:
    """Refuse a folder that cannot become one of ours, before any work is done: it is a file, or has files in it."""
    with _explain_errors(path):
        _refuse_filled(path)


def _refuse_filled(path: Path) -> None:
    if os.path.lexists(path) and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} is not empty", hint="choose a new folder")


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {os_reason(error)}", hint=HINT) from error


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to the open file: its folder may have been renamed before the file was locked."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
