"""Only one run at a time: a lock that names its holder, and that the kernel releases when its process ends."""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from railbed.errors import UsageError, os_reason
from railbed.model.private import for_us_alone
from railbed.store.run import runs_folder


@contextmanager
def only_one(purpose: str, run: str) -> Iterator[None]:
    """Hold the lock of a purpose, such as `configure lab`, for a run; raise UsageError if another run holds it."""
    path = runs_folder() / f".{purpose.replace(' ', '-')}.lock"
    try:
        # It stays when the run ends: removed, it could be locked by two that opened it before and after.
        file = open(path, "a+", encoding="utf-8", opener=for_us_alone)  # noqa: SIM115  (closed below)
    except OSError as error:
        raise UsageError(f"{path} cannot be locked: {os_reason(error)}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(
                f"another `railbed {purpose.partition(' ')[0]}` is running: {file.read().strip() or 'just started'}",
                hint="wait for it to end, or stop it",
            ) from None
        file.truncate(0)
        file.write(f"run {run}, {getpass.getuser()} on {socket.gethostname()}, pid {os.getpid()}\n")
        file.flush()
        yield
        file.truncate(0)
