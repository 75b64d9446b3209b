"""A run as a folder: `run.json` (what was asked, how it ended), `records.jsonl`, `cluster.yaml`, `raw/`.

A record is one line, written with one call: a crash loses at most that line, and a torn last line is passed over when
reading. While a run is written its records file is locked, which is how a reader tells one that goes on from one that
died.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic_core import to_json

from railbed import __version__
from railbed.errors import UsageError
from railbed.model.record import Finding, Record

RECORDS, ABOUT, CLUSTER, RAW = "records.jsonl", "run.json", "cluster.yaml", "raw"
RUN_NAME = re.compile(r"\d{8}-\d{6}-[a-z]+(-\d+)?")
Status = Literal["running", "done", "failed", "interrupted", "died"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What `run.json` says."""

    id: str
    verb: str
    arguments: Sequence[str]
    cluster: str
    version: str
    started: float
    ended: float | None = None
    status: Status = "running"
    exit: int | None = None
    verdicts: dict[str, int] = field(default_factory=dict)


class OpenRun:
    """A run that is being written."""

    def __init__(self, folder: Path, summary: RunSummary, records: BinaryIO) -> None:
        self.folder = folder
        self._summary = summary
        self._records = records
        self._verdicts: dict[str, int] = {}

    @property
    def raw(self) -> Path:
        """Folder of the raw outputs; it is a recording that `--replay` takes."""
        return self.folder / RAW

    def append(self, record: Record) -> None:
        """Keep one record."""
        if isinstance(record, Finding):
            self._verdicts[record.verdict] = self._verdicts.get(record.verdict, 0) + 1
        self._records.write(to_json(record) + b"\n")
        self._records.flush()

    def finish(self, status: Status, exit_code: int) -> None:
        """Say how it ended."""
        ended = {"ended": time.time(), "status": status, "exit": exit_code, "verdicts": self._verdicts}
        self._summary = RunSummary(**{**asdict(self._summary), **ended})
        os.fsync(self._records.fileno())
        write_atomically(self.folder / ABOUT, to_json(self._summary, indent=1))


def runs_folder() -> Path:
    """Return where runs are kept: `runs` in this folder, or $RAILBED_RUNS."""
    return Path(os.environ.get("RAILBED_RUNS", "runs"))


@contextmanager
def open_run(verb: str, *, cluster_name: str, cluster_text: str) -> Iterator[OpenRun]:
    """Begin a run."""
    started = time.time()
    folder = _new_folder(runs_folder(), f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started))}-{verb}")
    (folder / CLUSTER).write_text(cluster_text)
    summary = RunSummary(
        id=folder.name,
        verb=verb,
        arguments=sys.argv[1:],
        cluster=cluster_name,
        version=__version__,
        started=started,
    )
    write_atomically(folder / ABOUT, to_json(summary, indent=1))
    with (folder / RECORDS).open("ab", buffering=0) as records:
        fcntl.flock(records, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield OpenRun(folder, summary, records)


def list_runs() -> list[RunSummary]:
    """Return all runs, the newest first; folders that are no runs are passed over."""
    folder = runs_folder()
    if not folder.is_dir():
        return []
    names = sorted((path.name for path in folder.iterdir() if RUN_NAME.fullmatch(path.name)), reverse=True)
    return [summary for name in names if (summary := _try_read_run(name)) is not None]


def read_run(name: str) -> RunSummary:
    """Return one run by name."""
    summary = _try_read_run(name) if RUN_NAME.fullmatch(name) else None
    if summary is None:
        raise UsageError(f"there is no run {name} in {runs_folder()}", hint="`railbed runs` lists them")
    return summary


def read_records(name: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a run as they stand in its file; a torn last line is passed over."""
    read_run(name)
    with (runs_folder() / name / RECORDS).open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def _try_read_run(name: str) -> RunSummary | None:
    folder = runs_folder() / name
    try:
        summary = RunSummary(**json.loads((folder / ABOUT).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    if summary.status == "running" and not _is_being_written(folder / RECORDS):
        return RunSummary(**{**asdict(summary), "status": "died"})
    return summary


def _is_being_written(path: Path) -> bool:
    try:
        with path.open("rb") as records:
            fcntl.flock(records, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _new_folder(parent: Path, name: str) -> Path:
    for number in range(1, 1000):
        folder = parent / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(
                f"cannot keep the run in {parent}: {error.strerror}",
                hint="run in a folder you can write, or set RAILBED_RUNS",
            ) from error
        return folder
    raise UsageError(f"{parent} already holds a thousand runs of this second")


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside, flush to disk, rename: after a crash the file is the old one or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
