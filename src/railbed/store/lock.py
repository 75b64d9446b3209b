"""Only one run at a time: locks that name their holder, and that the kernel releases when its process ends.

They are in the user's cache folder, one for each device, so that runs from different folders, or with different cluster
files for the same devices, exclude each other.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from railbed.errors import UsageError, os_reason
from railbed.model.private import for_us_alone
from railbed.store.cache import cache_folder, make_folder, refuse_foreign


@contextmanager
def only_one(verb: str, addresses: Iterable[str], run: Path) -> Iterator[None]:
    """Hold the locks of devices for a run of a verb; raise UsageError if another run holds one of them."""
    holder = (
        f"run {run.name}, {getpass.getuser()} on {socket.gethostname()}, pid {os.getpid()}, in {run.parent.resolve()}"
    )
    with ExitStack() as stack:
        files = [stack.enter_context(_open_lock(verb, address)) for address in sorted(set(addresses))]
        for file in files:
            _lock(file, verb)
        for file in files:
            _write(file, f"{holder}\n")
        yield
        for file in files:
            _write(file, "")


def _open_lock(verb: str, address: str) -> TextIO:
    folder = cache_folder("locks")
    path = folder / f"{verb}-{re.sub(r'[^A-Za-z0-9.:-]', '_', address)[:200]}.lock"
    try:
        make_folder("locks")
        refuse_foreign(path)
        # It stays when the run ends: removed, it could be locked by two that opened it before and after.
        return open(path, "a+", encoding="utf-8", opener=for_us_alone)
    except OSError as error:
        raise UsageError(f"{path} cannot be locked: {os_reason(error)}") from error


def _lock(file: TextIO, verb: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise UsageError(
            f"another `railbed {verb}` is running: {file.read().strip() or 'just started'}",
            hint="wait for it to end, or stop it",
        ) from None


def _write(file: TextIO, text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()
