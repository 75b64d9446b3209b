"""The process that writes a run, identified so that no later process with the same number is mistaken for it."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import UsageError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOCKED = re.compile(rb"^lock:.*\bFLOCK\b.*\bWRITE\b", re.MULTILINE)
"""In /proc/PID/fdinfo, an open file that the process has locked."""
NOTHING = "nothing was stopped"
AFTER_NAME = 19
"""Index of the start time in /proc/PID/stat, counted after the program's name, which may contain spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process: its number, and what distinguishes it from others that had or will have the same number."""

    machine: str
    boot: str
    """Identifies this boot of the machine; the same number elsewhere, or after a reboot, is another process."""
    pid: int
    started: int
    """In ticks of the kernel since the machine started."""


def this_process() -> Process | None:
    """Return the process that this code runs in; None if the kernel does not provide its start time."""
    with suppress(OSError, ValueError, IndexError):
        pid = os.getpid()
        return Process(machine=socket.gethostname(), boot=_boot(), pid=pid, started=_start_of(pid))
    return None


def is_same_boot(process: Process) -> bool:
    """Whether a process belongs to this machine, since it was started."""
    try:
        return process.boot == _boot()
    except OSError:
        return process.machine == socket.gethostname()


def ask_to_end(process: Process, records: Path) -> bool:
    """Stop the process that writes these records as Ctrl-C in its terminal would; return False if it does not.

    Anybody could have made the file that names the process: only one that holds the lock of the records is theirs.
    """
    by_hand = f"`kill {process.pid}` on {process.machine} does the same"
    if process.boot != _boot():
        raise UsageError(
            f"the run is in progress on another machine, {process.machine}", hint=f"stop it there; {by_hand}"
        )
    try:
        # From here on the descriptor refers to that process or to none, even if its number is used again.
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise UsageError(f"the run's process cannot be reached: {error.strerror}", hint=by_hand) from error
    try:
        if _start_of(process.pid) != process.started or not _holds_lock(process.pid, records):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError as error:
        raise UsageError(
            f"process {process.pid}, which the run names, belongs to another user", hint=NOTHING
        ) from error
    finally:
        os.close(descriptor)
    return True


def _holds_lock(pid: int, records: Path) -> bool:
    """Whether a process has locked a file of this user."""
    about = records.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        return False
    return any(_is_locked_at(entry, about) for entry in Path(f"/proc/{pid}/fd").iterdir())


def _is_locked_at(entry: Path, about: os.stat_result) -> bool:
    """Whether an open file of a process, below /proc, is the one described, and locked there."""
    try:
        if not os.path.samestat(entry.stat(), about):
            return False
        return LOCKED.search((entry.parents[1] / "fdinfo" / entry.name).read_bytes()) is not None
    except FileNotFoundError:
        return False  # closed meanwhile


def _boot() -> str:
    return BOOT_ID.read_text().strip()


def _start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[AFTER_NAME])
