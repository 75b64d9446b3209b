"""Become an ordinary user who may read every file: tests may run a Python that only root can read."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
from pathlib import Path

NOBODY = 65534
CAP_DAC_READ_SEARCH = 2
PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 8, 47, 2
CAPABILITY_VERSION_3 = 0x20080522
FILE_CAPABILITIES_2, EFFECTIVE = 0x02000000, 1


def become_nobody() -> None:
    """Give up everything that root may do, except for reading files."""
    libc = ctypes.CDLL(None, use_errno=True)
    may_read = 1 << CAP_DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(may_read, may_read, may_read, 0, 0, 0)  # effective, permitted, inheritable: twice
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    assert libc.capset(header, sets) == 0
    assert libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0) == 0


def readable_python(folder: Path) -> Path:
    """Return a copy of our Python that may read every file, whoever runs it; jobs of Slurm drop what their user has."""
    python = folder / "bin" / "python3"
    python.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), python)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    may_read = struct.pack("<5I", FILE_CAPABILITIES_2 | EFFECTIVE, 1 << CAP_DAC_READ_SEARCH, 0, 0, 0)
    os.setxattr(python, "security.capability", may_read)
    return python
