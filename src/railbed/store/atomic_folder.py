"""A folder that appears only when complete: it is filled under a temporary name and renamed at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from railbed.errors import UsageError, os_reason
from railbed.model.text import amount

PARTIAL = ".partial"
HINT = "free some disk space, or choose another folder"


class AtomicFolder:
    """Collects the files of a folder; removes them unless it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}{PARTIAL}")
        self._finished = False

    def __enter__(self) -> Self:
        with self._explained():
            if os.path.lexists(self.path) and (not self.path.is_dir() or any(self.path.iterdir())):
                raise UsageError(f"{self.path} is not empty", hint="choose a new folder")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self.partial.mkdir()
            except FileExistsError:
                raise UsageError(
                    f"{self.partial} exists already: another export is running, or was killed",
                    hint=f"if none is running, `rm -r {self.partial}`",
                ) from None
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            shutil.rmtree(self.partial, ignore_errors=True)

    def need_room(self, size: int) -> None:
        """Raise UsageError if the disk does not have enough free space."""
        with self._explained():
            about = os.statvfs(self.partial)
            free = about.f_bavail * about.f_frsize
        if free < size:
            needed = f"{amount.size(size)} are needed, {amount.size(free)} are free"
            raise UsageError(f"{self.path} cannot be written: the disk is full: {needed}", hint=HINT)

    @contextmanager
    def new_file(self, name: str) -> Iterator[BinaryIO]:
        """Yield a new file, which is flushed to the disk at the end of the context."""
        if Path(name).name != name or name.startswith("."):
            raise UsageError(f"{name!r} is not a valid file name")
        with self._explained(), (self.partial / name).open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def clear(self) -> None:
        """Remove the files of a failed attempt."""
        for path in self.partial.iterdir():
            path.unlink()

    def finish(self) -> None:
        """Rename the folder to its final name."""
        with self._explained():
            self.partial.rename(self.path)  # replaces an empty folder
        self._finished = True

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {os_reason(error)}", hint=HINT) from error
