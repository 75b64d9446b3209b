"""The job of a submitted run: the one that its folder names, or the one that Slurm lists for its folder.

Whoever was killed while submitting could not store the number: the job itself stores it when it starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from railbed.cli.run.signals import run_until_ended
from railbed.cli.slurm.jobs import works_in
from railbed.errors import DeviceError
from railbed.store.submitted import job_of
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
