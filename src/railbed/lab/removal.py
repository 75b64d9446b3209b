"""Removes what a lab or an image left on this machine, and never what is mounted or linked there."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from railbed.lab.host import HostFault

REMOVE_SECONDS = 10.0


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder and its content, but never what is linked, or mounted below it.

    The folder that it is in is opened once, not through a link, and all is removed relative to that.
    """
    with suppress(FileNotFoundError):
        within = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if stat.S_ISDIR(os.lstat(path.name, dir_fd=within).st_mode):
                _remove_folder(path, within)
            else:
                os.unlink(path.name, dir_fd=within)
        finally:
            os.close(within)


def _remove_folder(path: Path, within: int) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while True:
        os.lstat(path.name, dir_fd=within)  # ends this if somebody else has removed it
        if mounts := mounts_below(path):
            raise HostFault(f"{mounts[0]} is a mount and was not removed", hint=f"umount it, then remove {path}")
        try:
            shutil.rmtree(path.name, dir_fd=within)
        except OSError as error:
            # A process that was just killed may still be writing, or another railbed is removing it, too.
            if time.monotonic() > deadline:
                raise HostFault(f"{path} cannot be removed: {error.strerror}") from error
            time.sleep(0.05)
        else:
            return


def mounts_below(path: Path) -> list[str]:
    """Return what is mounted on a folder or below it."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = (line.split()[4].encode("latin-1", "replace").decode("unicode_escape") for line in lines)
    return [point for point in points if Path(point).is_relative_to(path.resolve())]
