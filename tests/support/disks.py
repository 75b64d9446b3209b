"""Small disks that are really full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, megabytes: int = 8, files: int = 600) -> Iterator[Path]:
    """Mount a small disk on a new folder; the test is skipped if that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder.mkdir()
    options = f"size={megabytes}M,nr_inodes={files},mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Fill a disk up to that many bytes, also while others write to it; returns the file that does."""
    path = disk / "filling"
    with path.open("wb") as file:
        while (left := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - leave) > 0:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), left)
    return path
