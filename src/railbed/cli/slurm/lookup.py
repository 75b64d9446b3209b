"""The job of a submitted run: the one that its folder names, or the one that Slurm lists for its folder.

Whoever was killed while submitting could not store the number: the job itself stores it when it starts.

In the list of runs, a job is waiting with Slurm's reason, running, requeued, or ended.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railbed.cli.run.signals import run_until_ended
from railbed.cli.slurm.jobs import works_in
from railbed.errors import DeviceError, RailbedError
from railbed.store import RunSummary, find_run, is_own_folder
from railbed.store.submitted import job_of, was_submitted
from railbed.transport.queue import QueuedJob, own_jobs


def job_number(folder: Path) -> int | None:
    """Return the number of a run's job; None if its folder names none, and Slurm lists none that works there."""
    return run_until_ended(_find_job(folder))


async def _find_job(folder: Path) -> int | None:
    named = job_of(folder)
    try:
        listed = await own_jobs()
    except DeviceError:
        if named is None:
            raise
        return named.number  # whoever uses it asks Slurm again
    if named and named.number in listed and listed[named.number].is_live:
        return named.number
    working = job_in(folder, listed.values())
    if working is not None:
        return working.id
    return named.number if named else None


def job_in(folder: Path, jobs: Iterable[QueuedJob]) -> QueuedJob | None:
    """Return the live job that works in the folder of a run; the newest, if there are several."""
    working = [job for job in jobs if job.is_live and works_in(job, folder)]
    return max(working, key=lambda job: job.id, default=None)


OPEN = ("waiting", "running", "died")
"""States of a run whose job may be in the queue: one that is written on another machine may look dead from here."""


@dataclass(frozen=True, slots=True)
class RunJobs:
    """The numbers of the jobs of runs, and what Slurm lists about them."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    queued: Mapping[str, QueuedJob] = field(default_factory=dict)
    lost: Collection[str] = ()
    """Submitted runs whose folder names no job, and for which Slurm lists none."""

    def is_live(self, run: str) -> bool:
        """Whether the job of a run is running or waiting."""
        return run in self.queued and self.queued[run].is_live

    def status(self, run: RunSummary) -> str:
        """Return the status of a run for the list: that of its job while there is one."""
        if run.id in self.lost and run.status == "waiting":
            return "has no job"
        if run.id not in self.numbers:
            return run.status
        job = self.queued.get(run.id)
        if job is None or not job.is_live:
            return f"job {self.numbers[run.id]} has ended" if run.status == "waiting" else run.status
        return f"job {job.id} {job.in_words}"

    def fields(self, run: str) -> dict[str, object]:
        """Return the fields that the record of a run has about its job."""
        if run not in self.numbers:
            return {}
        job = self.queued.get(run)
        return {
            "job": self.numbers[run],
            "job_state": job.state if job else "",
            "job_reason": job.reason if job else "",
        }


def read_jobs(runs: Sequence[RunSummary]) -> RunJobs:
    """Return the jobs of runs; Slurm is asked only if a run may have one that has not ended."""
    folders = {run.id: find_run(run.id) for run in runs}
    # `squeue` lists the jobs of this user: those of others would seem to have ended.
    own = {run: folder for run, folder in folders.items() if is_own_folder(folder)}
    numbers = {run: job.number for run, folder in own.items() if (job := job_of(folder)) is not None}
    pending = [run.id for run in runs if run.status in OPEN and run.id in own and was_submitted(own[run.id])]
    if not pending:
        return RunJobs(numbers)
    # Imported here because most folders have no jobs.
    from railbed.cli.run.signals import run_until_ended
    from railbed.cli.slurm.jobs import works_in
    from railbed.transport.queue import own_jobs

    try:
        listed = run_until_ended(own_jobs())
    except RailbedError as error:
        sys.stderr.write(f"railbed: the state of jobs is unknown: {error.message}\n")
        return RunJobs(numbers)
    queued = {run: listed[number] for run, number in numbers.items() if number in listed}
    theirs = {run for run, job in queued.items() if job.is_live and not works_in(job, own[run])}
    jobs = {run: job for run, job in queued.items() if run not in theirs}
    for run in pending:
        if not (run in jobs and jobs[run].is_live) and (working := job_in(own[run], listed.values())):
            jobs[run] = working
    named = {run: number for run, number in numbers.items() if run not in theirs}
    lost = frozenset(run for run in pending if run not in numbers and run not in jobs)
    return RunJobs({**named, **{run: job.id for run, job in jobs.items()}}, jobs, lost)
