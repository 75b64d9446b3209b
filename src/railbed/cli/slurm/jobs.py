"""The jobs of runs, as Slurm lists them now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.cli.exits import INTERRUPTED
from railbed.errors import DeviceError, RailbedError
from railbed.store import RunSummary, set_status
from railbed.store.submitted import job_of
from railbed.transport.queue import JobDetails, QueuedJob, list_jobs, read_details

POLL_SECONDS = 1.0
UNANSWERED = 30
"""After this many polls without an answer, Slurm counts as out of reach."""
CANCELLED = "CANCELLED"


class JobEnded(DeviceError):
    """A job ended, and railbed in it could not record why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """The job of a run; `queued` is None if Slurm no longer lists it."""

    number: int
    queued: QueuedJob | None


async def jobs_of(folders: Iterable[Path]) -> dict[Path, RunJob]:
    """Return the jobs of those runs that were submitted."""
    numbers = {folder: job.number for folder in folders if (job := job_of(folder)) is not None}
    listed = await list_jobs(set(numbers.values()))
    return {folder: RunJob(number=number, queued=listed.get(number)) for folder, number in numbers.items()}


class JobWatch:
    """Asks Slurm every second about one job, while the context is open."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.queued: QueuedJob | None = None
        self.trouble: RailbedError | None = None
        """Why Slurm cannot be asked, if that lasts."""
        self.ended = asyncio.Event()
        """Set when the job has ended, or Slurm has not answered for too long."""

    @property
    def is_live(self) -> bool:
        """Whether the job runs or will; true while Slurm does not answer for a moment."""
        return not self.ended.is_set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Ask until the context ends."""
        task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            task.cancel()

    async def _poll(self) -> None:
        unanswered = 0
        while True:
            try:
                self.queued = (await list_jobs({self.number})).get(self.number)
                unanswered = 0
                if self.queued is None or not self.queued.is_live:
                    break
            except DeviceError as error:
                unanswered += 1
                if unanswered >= UNANSWERED:
                    self.trouble = error
                    break
            await asyncio.sleep(POLL_SECONDS)
        self.ended.set()


async def settle(folder: Path, summary: RunSummary, number: int, queued: QueuedJob | None) -> str:
    """Record the end of a run whose job ended without railbed, and return Slurm's reason; empty if railbed recorded it.

    A job that was cancelled in the queue never started railbed, and one whose nodes died could not end it.
    """
    if (queued is not None and queued.is_live) or summary.status not in ("waiting", "died"):
        return ""
    details = await _details(number)
    state = queued.state if queued else details.state if details else ""
    if summary.status == "waiting":
        cancelled = state.startswith(CANCELLED)
        set_status(folder, "stopped" if cancelled else "died", INTERRUPTED if cancelled else None)
    if not state:
        return "Slurm no longer lists it"
    reason = queued.reason if queued else details.reason if details else ""
    return f"Slurm reports it as {state}{f' ({reason})' if reason else ''}"


async def _details(number: int) -> JobDetails | None:
    with suppress(RailbedError):
        return await read_details(number)
    return None
