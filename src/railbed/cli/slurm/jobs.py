"""The jobs of runs, as Slurm lists them now, and why a job waits.

Some reasons last until a person changes something: a hold, more nodes than there are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from railbed.api.exits import INTERRUPTED
from railbed.errors import DeviceError, RailbedError, UsageError
from railbed.store import RunSummary, set_status
from railbed.store.submitted import JOB
from railbed.transport.queue import JobDetails, QueuedJob, list_jobs, read_details

POLL_SECONDS = 1.0
UNANSWERED = 30
"""After this many polls without an answer, Slurm counts as out of reach."""
CANCELLED = "CANCELLED"


class JobEnded(DeviceError):
    """A job ended, and railbed in it could not record why."""


class NotItsJob(UsageError):
    """The job that a run's `job.json` names belongs to something else."""


def works_in(queued: QueuedJob, folder: Path) -> bool:
    """Whether a job was submitted from the folder of a run; links are not followed there."""
    try:
        return bool(queued.folder) and os.path.samestat(Path(queued.folder).stat(), folder.lstat())
    except OSError:
        return False


def refuse_other_job(queued: QueuedJob | None, folder: Path) -> None:
    """Raise NotItsJob for a live job of this user that does not write this run: somebody may have put its number there.

    Slurm may also give numbers again.
    """
    if queued is not None and queued.is_live and not works_in(queued, folder):
        raise NotItsJob(
            f"job {queued.id} is not that of {folder.name}, whose {JOB} names it: it works in {queued.folder}",
            hint=f"nothing was done; `scontrol show job {queued.id}` shows whose it is",
        )


class JobWatch:
    """Asks Slurm every second about the job of a run, while the context is open."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number
        self.queued: QueuedJob | None = None
        self.trouble: RailbedError | None = None
        """Why the job cannot be watched, if that lasts."""
        self.ended = asyncio.Event()
        """Set when the job has ended, or cannot be watched."""

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
                refuse_other_job(self.queued, self.folder)
                if self.queued is None or not self.queued.is_live:
                    break
            except NotItsJob as error:
                self.trouble = error
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


PARTITION = "it requests more than its partition has or allows"
LIMITED = "it requests more than {} allows for one job"
REFUSED = "its partition does not accept its {}"
HELD = "it is held, and `scontrol release {}` releases it"
OBSTACLES = {
    "PartitionConfig": PARTITION,
    "PartitionNodeLimit": PARTITION,
    "PartitionTimeLimit": PARTITION,
    "PartitionDown": "its partition starts no jobs",
    "PartitionInactive": "its partition starts no jobs",
    "BadConstraints": "no node has what it requests",
    "AssocMaxNodePerJobLimit": LIMITED.format("its account"),
    "AssocMaxWallDurationPerJobLimit": LIMITED.format("its account"),
    "QOSMaxNodePerJobLimit": LIMITED.format("its QOS"),
    "QOSMaxWallDurationPerJobLimit": LIMITED.format("its QOS"),
    "AccountNotAllowed": REFUSED.format("account"),
    "QOSNotAllowed": REFUSED.format("QOS"),
    "InvalidAccount": "its account is invalid",
    "InvalidQOS": "its QOS is invalid",
    "DependencyNeverSatisfied": "a job that it depends on did not end as required",
    "JobHeldUser": HELD,
    "JobHeldAdmin": "an administrator holds it",
    "JobHoldMaxRequeue": HELD,
    "launch failed requeued held": HELD,
}

NEVER = (
    *(name for name in OBSTACLES if name.startswith(("Assoc", "QOS", "Invalid")) or name.endswith("NotAllowed")),
    "BadConstraints",
    "DependencyNeverSatisfied",
    "PartitionTimeLimit",
)
"""Reasons in the request itself: another request is needed. Slurm also gives the others while nodes are down."""


def never_starts(job: QueuedJob | None) -> bool:
    """Whether a job in the queue can never start as it was requested."""
    return job is not None and job.is_waiting and job.reason in NEVER


def obstacle(job: QueuedJob | None) -> str:
    """Return a sentence about a job that does not start by itself; empty for any other."""
    if job is None or not job.is_waiting or job.reason not in OBSTACLES:
        return ""
    return f"job {job.id} does not start: {OBSTACLES[job.reason].format(job.id)} (Slurm: {job.reason})"
