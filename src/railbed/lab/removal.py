"""Removes what a lab or an image left on this machine, and never what is mounted or linked there."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from railbed.lab.host import HostFault

REMOVE_SECONDS = 10.0


def remove_tree(path: Path) -> None:
    """Remove a file, or a folder and its content, but never what is mounted below it."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    deadline = time.monotonic() + REMOVE_SECONDS
    while path.is_dir():
        if mounts := mounts_below(path):
            raise HostFault(f"{mounts[0]} is a mount and was not removed", hint=f"umount it, then remove {path}")
        try:
            shutil.rmtree(path)
        except OSError as error:
            # A process that was just killed may still be writing.
            if time.monotonic() > deadline:
                raise HostFault(f"{path} cannot be removed: {error.strerror}") from error
            time.sleep(0.05)


def mounts_below(path: Path) -> list[str]:
    """Return what is mounted on a folder or below it."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = (line.split()[4].encode("latin-1", "replace").decode("unicode_escape") for line in lines)
    return [point for point in points if Path(point).is_relative_to(path.resolve())]
