"""The process that writes a run: named so that no later process of the same number is ever taken for it."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import UsageError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
AFTER_NAME = 19
"""Where the start time stands in /proc/PID/stat, counted from behind the program's name, which may have spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process: its number, and what tells it from others that had or will have the same one."""

    machine: str
    boot: str
    """This start of the machine; the same number elsewhere, or after a reboot, is another process."""
    pid: int
    started: int
    """In ticks of the kernel since the machine started."""


def this_process() -> Process | None:
    """Return the process that this code runs in; None where the kernel does not say when it began."""
    with suppress(OSError, ValueError, IndexError):
        pid = os.getpid()
        return Process(machine=socket.gethostname(), boot=_boot(), pid=pid, started=_start_of(pid))
    return None


def ask_to_end(process: Process) -> bool:
    """Do to a process what Ctrl-C does in its terminal; return False where it is gone already."""
    by_hand = f"`kill {process.pid}` on {process.machine} does the same"
    if process.boot != _boot():
        raise UsageError(f"the run goes on on another machine, {process.machine}", hint=f"stop it there; {by_hand}")
    try:
        # From here on the descriptor is that process or nothing, whatever becomes of the number.
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise UsageError(f"the run's process cannot be reached: {error.strerror}", hint=by_hand) from error
    try:
        if _start_of(process.pid) != process.started:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError as error:
        raise UsageError("the run's process belongs to another user", hint=by_hand) from error
    finally:
        os.close(descriptor)
    return True


def _boot() -> str:
    return BOOT_ID.read_text().strip()


def _start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[AFTER_NAME])
