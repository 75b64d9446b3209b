"""Locks that name their holder, and that the kernel releases when its process ends: of a run, and of devices.

No second process writes a run while its holder may be alive. Locks of devices are in the user's cache folder, one for
each, so that runs from different folders, or with different cluster files for the same devices, exclude each other.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from railbed.errors import UsageError, os_reason
from railbed.model.private import for_us_alone
from railbed.store.cache import cache_folder, make_folder, refuse_foreign
from railbed.store.run import ALIVE, RECORDS, is_same_boot, read_about
from railbed.store.submitted import job_of

LOCK_SECONDS = 10.0
"""Longer than the interval between two signs of life of a training that several nodes run."""
ENDING_WINDOWS = 6
"""How many times that long to wait for an earlier start of the same job: Slurm may still be ending its processes."""
AGAIN_SECONDS = 0.1
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)
"""Errors of a file system without locks."""


class BeingWritten(UsageError):
    """Another process writes the run."""


class PartOfSeveral(UsageError):
    """The job is one of several that were submitted together: all would write one run."""


@dataclass(frozen=True, slots=True)
class JobStart:
    """A start of a Slurm job."""

    job: int
    start: int
    """How often Slurm had requeued it."""


def this_start() -> JobStart | None:
    """Return the start of the Slurm job around this process; None if it is in none."""
    job, count = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_RESTART_COUNT", "")
    if not job.isdigit():
        return None
    return JobStart(int(job), int(count) if count.isdigit() else 0)


def refuse_several(folder: Path) -> None:
    """Raise PartOfSeveral in a job of an array, or in a part of a heterogeneous job."""
    for variable, what in (("SLURM_ARRAY_JOB_ID", "array"), ("SLURM_HET_JOB_ID", "heterogeneous job")):
        if number := os.environ.get(variable):
            raise PartOfSeveral(
                f"this is a part of the {what} {number}, whose parts would all write {folder.name}",
                hint="submit each run with a `railbed submit` of its own",
            )


def lock_new(records: BinaryIO) -> None:
    """Lock the records of a run that starts now; raise BlockingIOError if that is impossible."""
    _try_lock(records)


def lock_again(records: BinaryIO, folder: Path, start: JobStart | None) -> None:
    """Lock the records of a run that continues; raise BeingWritten if another process writes it.

    A file server releases the lock of a machine that lost power late or never. It is ignored only if it belongs to an
    earlier start of this job, which Slurm has ended, on another machine, and if nothing shows that it still works.
    """
    for _ in range(ENDING_WINDOWS if _is_of_earlier_start(folder, start) else 1):
        before = _signs(folder)
        if _lock_within(records, LOCK_SECONDS):
            return
        if _signs(folder) == before and _is_of_lost_machine(folder, start):
            return
    raise _being_written(folder)


def _lock_within(records: BinaryIO, seconds: float) -> bool:
    """Wait for the lock, and return whether it came in time."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(BlockingIOError):
            _try_lock(records)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(AGAIN_SECONDS)


def _try_lock(records: BinaryIO) -> None:
    try:
        fcntl.flock(records, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _signs(folder: Path) -> list[tuple[int, int] | None]:
    """Return what changes while a process writes the run."""
    return [_version(folder / name) for name in (RECORDS, ALIVE)]


def _version(path: Path) -> tuple[int, int] | None:
    try:
        about = path.lstat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns


def _is_of_earlier_start(folder: Path, start: JobStart | None) -> bool:
    """Whether the run was last written by an earlier start of this job, which Slurm ends before the next."""
    holder = job_of(folder)
    return start is not None and holder is not None and holder.number == start.job and holder.start < start.start


def _is_of_lost_machine(folder: Path, start: JobStart | None) -> bool:
    process = read_about(folder).process
    return _is_of_earlier_start(folder, start) and process is not None and not is_same_boot(process)


def _being_written(folder: Path) -> BeingWritten:
    holder, process = job_of(folder), read_about(folder).process
    job = f" of job {holder.number}" if holder else ""
    where = f" on {process.machine}, pid {process.pid}{job}" if process else job
    return BeingWritten(
        f"another process{where} is writing {folder.name}: nothing was changed",
        hint=f"`railbed runs --stop {folder.name}` ends it, or wait until it is done",
    )


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
