"""A run as a folder: `run.json` (arguments, how it ended), `records.jsonl`, `cluster.yaml`, `raw/`.

A record is one line, written with one call: a crash loses at most that line, and readers ignore an incomplete last
line. While a run is written its records file is locked, so that readers can distinguish a run in progress from one that
died.

The process that writes a run is identified so that no later process with the same number is mistaken for it. Only the
owner of a run stops and continues it, in a folder that nobody else can put another in place of.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from pydantic import BeforeValidator, TypeAdapter

from railbed.errors import UsageError, os_reason
from railbed.model.regular import open_regular, read_regular
from railbed.model.writers import first_gap, other_writers, user_name

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


RECORDS, ABOUT, CLUSTER, RAW = "records.jsonl", "run.json", "cluster.yaml", "raw"
ALIVE = "alive"
"""Changes every few seconds while a job of several nodes writes the run."""
SERIES, NOTES = "series", "notes.jsonl"
"""What a run has if it was sampled, and if other commands noted something about it."""
RUN_NAME = re.compile(r"\d{8}-\d{6}-[a-z]+(-\d+)?")
PRIVATE = 0o600
"""Only its user may read the files of a run: they contain addresses, logins and device output."""
Status = Literal["waiting", "running", "done", "failed", "stopped", "died"]
"""`waiting`: its Slurm job is in the queue, before its first start or between two. `stopped`: by Ctrl-C, `--stop`, a
signal, or the end of whatever reads its output. `died`: its process is gone and has not recorded how it ended."""
FORMER = {"interrupted": "stopped"}
"""Names that runs of earlier versions have for a status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The content of `run.json`."""

    id: str
    verb: str
    arguments: Sequence[str]
    cluster: str
    version: str
    started: float
    ended: float | None = None
    status: Annotated[
        Status, BeforeValidator(lambda name: FORMER.get(name, name) if isinstance(name, str) else name)
    ] = "running"
    exit: int | None = None
    verdicts: dict[str, int] = field(default_factory=dict)
    process: Process | None = None
    """The process that writes or wrote the run."""
    unstored: str = ""
    """Why the last records are missing, such as a full disk, which has ended the run; empty if all are there."""


_SUMMARY = TypeAdapter(RunSummary)


def runs_folder() -> Path:
    """Return the folder of all runs: `runs` in this folder, or $RAILBED_RUNS."""
    return Path(os.environ.get("RAILBED_RUNS") or "runs")


def list_runs(folder: Path | None = None) -> list[RunSummary]:
    """Return all runs of a folder, the newest first; folders that are not runs are ignored."""
    folder = folder or runs_folder()
    try:
        entries = [path.name for path in folder.iterdir()] if os.path.lexists(folder) else []
    except OSError as error:
        raise UsageError(f"{describe_folder(folder)} cannot be read: {error.strerror}") from error
    names = sorted(filter(RUN_NAME.fullmatch, entries), reverse=True)
    return [summary for name in names if (summary := read_run_in(folder / name)) is not None]


def read_run(name: str) -> RunSummary:
    """Return one run by name."""
    summary = read_run_in(runs_folder() / name) if RUN_NAME.fullmatch(name) else None
    if summary is None:
        raise UsageError(f"there is no run {name} in {runs_folder()}", hint="`railbed runs` lists them")
    return summary


def read_run_in(folder: Path) -> RunSummary | None:
    """Return the run in a folder; None if it has no readable run."""
    try:
        if not _is_regular_or_missing(folder / RECORDS):
            return None
        summary = read_about(folder)
        if summary.status == "running" and not is_being_written(folder):
            # It may have ended normally between the two checks; then the file now has its status.
            summary = read_about(folder)
            return replace(summary, status="died") if summary.status == "running" else summary
    except (OSError, ValueError):
        return None
    return summary


def _is_regular_or_missing(path: Path) -> bool:
    """Whether a path is a file, neither a link nor a pipe; a run that died at its start has no records."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True


def read_about(folder: Path) -> RunSummary:
    name = folder.name if RUN_NAME.fullmatch(folder.name) else folder.resolve().name
    return replace(_SUMMARY.validate_json(read_regular(folder / ABOUT), strict=True), id=name)


def is_being_written(folder: Path) -> bool:
    """Whether the process that writes a run is still alive."""
    try:
        with open_regular(folder / RECORDS) as records:
            fcntl.flock(records, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def is_own_folder(folder: Path) -> bool:
    """Whether a run's folder is a real folder, not a link, that belongs to this user."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()


def remove_run(folder: Path) -> None:
    """Remove the folder of a run that has ended; links in it are removed, their targets are not."""
    if not is_own_folder(folder) or not RUN_NAME.fullmatch(folder.name):
        raise UsageError(f"{folder} is not the folder of a run of this user")
    if is_being_written(folder):
        raise UsageError(f"{folder.name} is running")
    shutil.rmtree(folder)


def describe_folder(folder: Path) -> str:
    """Describe a folder; a link together with its target, which may be missing or wrong."""
    return f"{folder} (a link to {folder.readlink()})" if folder.is_symlink() else str(folder)


def resolve_links(path: Path) -> Path:
    """Resolve links in a path, whether its target exists or not; raise OSError for a link that leads to itself."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, "a link that leads to itself", str(path))
    return target


def write_atomically(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file: after a crash it is either old or new."""
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Write a temporary file; at the end, flush it to disk and rename it. If that fails, nothing has changed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


ELSEWHERE = "`RAILBED_RUNS=FOLDER` uses a folder that only you can write to"


def refuse_foreign_run(folder: Path, command: str) -> None:
    """Raise UsageError unless a run's folder is a real folder of this user; `command` is what its owner can use."""
    about = folder.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise UsageError(f"{folder} is a link, and what it leads to may be another run", hint="name the folder itself")
    if about.st_uid != os.geteuid():
        owner = user_name(about.st_uid)
        hint = f"`sudo -u {owner} {command}`" if os.geteuid() == 0 else f"{owner} can use `{command}`"
        raise UsageError(
            f"{folder.name} is a run of {owner}, and only {owner} can do this: nothing was done", hint=hint
        )


def require_private_run(folder: Path) -> None:
    """Raise UsageError unless a run is a real folder that only this user can write to and replace: it continues."""
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise UsageError(f"{folder} is not a folder of this user: the run does not continue", hint=ELSEWHERE)
    if other_writers(folder, about):
        raise UsageError(
            f"others can write to {folder}: the run does not continue", hint=f"`{_closing(folder)}` closes it to them"
        )
    refuse_replaceable(folder)


def refuse_replaceable(folder: Path) -> None:
    """Raise UsageError if anybody but this user and root can put something else in place of a folder.

    It need not exist.
    """
    try:
        gap = first_gap(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be reached: {os_reason(error)}", hint=ELSEWHERE) from error
    if gap is None:
        return
    if not gap.writers:
        raise UsageError(
            f"{gap.place} belongs to {user_name(gap.owner)}, who can put another folder in place of {folder}",
            hint=ELSEWHERE,
        )
    close = f"`{_closing(gap.place)}` closes it to them, " if gap.owner == os.geteuid() else ""
    raise UsageError(
        f"others can write to {gap.place}, and put another folder in place of {folder}", hint=f"{close}{ELSEWHERE}"
    )


def _closing(path: Path) -> str:
    return f"chmod go-w {shlex.quote(str(path))}"
