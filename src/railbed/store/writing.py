"""Writes runs: a new folder, or one whose job starts again.

While a run is written its records file is locked, so that readers can distinguish a run in progress from one that died.

Other commands leave notes about a run in progress, such as a fault that was caused in its lab. The records of a run
have one writer, so notes are in a file of their own, `notes.jsonl`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from pydantic_core import to_json

from railbed import __version__
from railbed.errors import UsageError, os_reason
from railbed.model.events import TrainingStarted
from railbed.model.private import for_us_alone, scrub
from railbed.model.record import Event, Finding, Record
from railbed.store.proof import Unprovable, prove, prove_training
from railbed.store.records import to_line
from railbed.store.run import (
    ABOUT,
    CLUSTER,
    NOTES,
    PRIVATE,
    RAW,
    RECORDS,
    RunSummary,
    Status,
    describe_folder,
    is_own_folder,
    list_runs,
    read_about,
    require_private_run,
    runs_folder,
    this_process,
    write_atomically,
)
from railbed.store.run_lock import lock_again, lock_new, refuse_several, this_start
from railbed.store.submitted import note_job

CONTINUED = "RAILBED_RUN"
"""Environment variable with the folder of the run to write, instead of a new one: a submitted job has it."""
RESERVE, RESERVE_BYTES = "run.json.reserve", 4096
"""Space for the last `run.json`: without it, a run on a full disk would look as if it had been killed."""
LEAST_BYTES, LEAST_FILES = 1 << 20, 16
"""A run does not start with less free space than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where a verb stores its run."""

    folder: Path = field(default_factory=runs_folder)
    """The folder of all runs."""
    continued: Path | None = None
    """The run to write, instead of a new one."""


class OpenRun:
    """A run that is being written."""

    def __init__(
        self, folder: Path, summary: RunSummary, records: BinaryIO, unproven: Unprovable | None = None
    ) -> None:
        self.folder = folder
        self.unproven = unproven
        """Why the run has no proof that this user made it; None if it has."""
        self._summary = summary
        self._records = records
        self._verdicts = dict(summary.verdicts)
        self._raw = _find_unused(folder, RAW)
        self._opened = time.time(), time.monotonic()

    @property
    def summary(self) -> RunSummary:
        """The current content of `run.json`."""
        return self._summary

    @property
    def raw(self) -> Path:
        """Folder of the raw outputs, which is a recording for `--replay`: `raw`, and `raw-2` for the second start."""
        return self._raw

    def append(self, record: Record) -> None:
        """Store one record; once that has failed, no more are stored, since the last line may be incomplete."""
        if self._summary.unstored:
            return
        if isinstance(record, Finding):
            self._verdicts[record.verdict] = self._verdicts.get(record.verdict, 0) + 1
        line = scrub(to_line(record)) + b"\n"
        if isinstance(record, TrainingStarted) and not self.unproven:
            prove_training(self.folder, self._summary.id, line)
        try:
            # One call writes everything, unless the disk fills up: then the next call raises.
            while line:
                line = line[self._records.write(line) :]
        except OSError as error:
            self._summary = replace(self._summary, unstored=os_reason(error))
            raise _not_stored(self.folder.parent, error) from error

    def finish(self, status: Status, exit_code: int) -> None:
        """Store how the run ended, and when: by the clock as it was, if that was set back meanwhile."""
        opened, monotonic = self._opened
        ended = max(self._summary.started, time.time(), opened + time.monotonic() - monotonic)
        self._summary = replace(self._summary, ended=ended, status=status, exit=exit_code, verdicts=self._verdicts)
        about = to_json(self._summary, indent=1)
        with _explain_errors(self.folder.parent):
            try:
                os.fsync(self._records.fileno())
                write_atomically(self.folder / ABOUT, about, mode=PRIVATE)
                (self.folder / RESERVE).unlink(missing_ok=True)
            except OSError:
                if not _use_reserve(self.folder, about):
                    raise


def _use_reserve(folder: Path, about: bytes) -> bool:
    """Write the last `run.json` in place of the reserve, which needs no more space; return whether that succeeded."""
    reserve = folder / RESERVE
    try:
        with reserve.open("r+b") as file:
            length = os.fstat(file.fileno()).st_size
            if length < len(about):
                return False
            file.write(about.ljust(length))
            file.flush()
            os.fsync(file.fileno())
        reserve.replace(folder / ABOUT)
    except OSError:
        return False
    return True


@contextmanager
def open_run(
    verb: str, *, cluster_name: str, cluster_text: str, arguments: Sequence[str] = (), store: Store | None = None
) -> Iterator[OpenRun]:
    """Start a run, or continue the one that the store names.

    `arguments` are the words of the command line, or of one that does the same.
    """
    store = store or Store()
    continued = store.continued
    parent = continued.parent if continued else store.folder
    with ExitStack() as stack:
        with _explain_errors(parent):
            before = (
                _read_before(continued, verb)
                if continued
                else new_run(verb, cluster_name=cluster_name, arguments=arguments, parent=parent)
            )
            folder = continued or parent / before.id
            # Lock before `run.json` says so: a reader that finds a run in progress must find it locked.
            records = stack.enter_context(open(folder / RECORDS, "a+b", buffering=0, opener=for_us_alone))
            _take_over(folder, records) if continued else lock_new(records)
            write_atomically(folder / CLUSTER, cluster_text.encode(), mode=PRIVATE)
            _end_last_line(records)
            summary = replace(
                before,
                cluster=cluster_name,
                started=before.started if os.fstat(records.fileno()).st_size else time.time(),
                status="running",
                ended=None,
                exit=None,
                process=this_process(),
                unstored="",
            )
            about = to_json(summary, indent=1)
            write_atomically(folder / RESERVE, bytes(len(about) + RESERVE_BYTES), mode=PRIVATE)
            write_atomically(folder / ABOUT, about, mode=PRIVATE)
            unproven = _prove(folder, summary, cluster_text)
        yield OpenRun(folder, summary, records, unproven)


def _prove(folder: Path, summary: RunSummary, cluster_text: str) -> Unprovable | None:
    """Prove who made the cluster file; return why that is impossible."""
    try:
        prove(folder, summary.id, {"cluster": cluster_text.encode()})
    except Unprovable as reason:
        return reason
    return None


def new_run(
    verb: str,
    *,
    cluster_name: str,
    arguments: Sequence[str] = (),
    parent: Path | None = None,
    status: Status = "running",
) -> RunSummary:
    """Make the folder of a run that starts now, or that waits for its job; only the latter has a `run.json` already."""
    started, parent = time.time(), parent or runs_folder()
    with _explain_errors(parent):
        folder = _new_folder(parent, f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started))}-{verb}")
        _need_room(folder)
        summary = RunSummary(
            id=folder.name,
            verb=verb,
            # Arguments may be arbitrary bytes; JSON is Unicode.
            arguments=[argument.encode("utf-8", "replace").decode() for argument in arguments],
            cluster=cluster_name,
            version=__version__,
            started=started,
            status=status,
        )
        if status != "running":
            write_atomically(folder / ABOUT, to_json(summary, indent=1), mode=PRIVATE)
    return summary


def set_status(folder: Path, status: Status, exit_code: int | None = None) -> None:
    """Change the status of a run that nothing writes, such as of one whose job was cancelled in the queue."""
    ended = None if status == "waiting" else time.time()
    with _explain_errors(folder.parent):
        summary = replace(read_about(folder), status=status, exit=exit_code, ended=ended)
        write_atomically(folder / ABOUT, to_json(summary, indent=1), mode=PRIVATE)


def run_to_continue() -> Path | None:
    """Return the run that the environment names; raise UsageError unless it is one that only this user can replace."""
    named = os.environ.get(CONTINUED)
    if not named:
        return None
    folder = Path(named)
    with _explain_errors(folder.parent):
        require_private_run(folder)
    return folder


def _read_before(folder: Path, verb: str) -> RunSummary:
    try:
        summary = read_about(folder)
    except ValueError as error:
        raise UsageError(f"{folder} is not a run: its {ABOUT} is damaged") from error
    if summary.verb != verb:
        raise UsageError(f"{folder} is a run of `railbed {summary.verb}`, and ${CONTINUED} names it for `{verb}`")
    return summary


def _take_over(folder: Path, records: BinaryIO) -> None:
    """Lock a run that continues, and store which job writes it; raise UsageError if another process may write it."""
    refuse_several(folder)
    start = this_start()
    lock_again(records, folder, start)
    # Somebody who continues a run by hand inside another job does not make that one the job of the run.
    with suppress(OSError):
        if start and Path(os.environ.get("SLURM_SUBMIT_DIR", "")).samefile(folder):
            note_job(folder, start.job, start.start)


def _end_last_line(records: BinaryIO) -> None:
    """End a line that a killed process left incomplete, so that the next record has a line of its own."""
    if size := os.fstat(records.fileno()).st_size:
        records.seek(size - 1)
        if records.read(1) != b"\n":
            records.write(b"\n")


def _find_unused(folder: Path, name: str) -> Path:
    numbers = (name if number == 1 else f"{name}-{number}" for number in range(1, 100_000))
    return next(folder / candidate for candidate in numbers if not os.path.lexists(folder / candidate))


def _new_folder(parent: Path, name: str) -> Path:
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(
            f"cannot store the run in {describe_folder(parent)}: it is not a folder",
            hint="move it away, or set RAILBED_RUNS",
        ) from error
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            return folder
    raise UsageError(f"{parent} already has a thousand runs of this second")


def _need_room(folder: Path) -> None:
    """Refuse to start on a full disk: a run without its records is useless."""
    about = os.statvfs(folder)
    if about.f_bavail * about.f_frsize < LEAST_BYTES or (about.f_files and about.f_favail < LEAST_FILES):
        folder.rmdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the file system into a sentence for the user."""
    try:
        yield
    except OSError as error:
        raise _not_stored(folder, error) from error


def _not_stored(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot store the run in {folder}: {os_reason(error)}",
        hint="free some disk space, run in a folder that you can write to, or set RAILBED_RUNS",
    )


def note_in_runs(cluster: str, events: Iterable[Event]) -> None:
    """Add events to every run in progress on a cluster; a run whose folder cannot be written does without them."""
    lines = b"".join(scrub(to_line(event)) + b"\n" for event in events)
    for run in list_runs() if lines else ():
        folder = runs_folder() / run.id
        if run.status == "running" and run.cluster == cluster and is_own_folder(folder):
            with suppress(OSError), open(folder / NOTES, "ab", buffering=0, opener=for_us_alone) as file:
                file.write(lines)
