"""Reads files that anybody may have prepared, such as those of a run: no pipes, which block, no devices, no links."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LARGEST_BYTES = 64 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; raise OSError if it is something else: links are followed only in paths people type."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, largest: int = LARGEST_BYTES) -> bytes:
    """Return the content of a file, as much of it as is read at most."""
    with open_regular(path) as file:
        return file.read(largest)
