"""Runs that `railbed runs --clean` leaves alone: their Slurm job runs or will, or Slurm cannot be asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.errors import RailbedError
from railbed.store import RunSummary, runs_folder
from railbed.store.submitted import SCRIPT, job_of
from railbed.transport.queue import QueuedJob

ENDED = ("done", "failed")
"""States that the run of a job has for good. Slurm may have put one that was stopped back into the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClaim:
    """Why a run stays for its Slurm job."""

    reason: str
    remedy: str
    """What to do if it is to be removed."""
    is_certain: bool = True
    """Whether Slurm lists the job; else it could not be asked."""


def job_claims(runs: Sequence[RunSummary]) -> dict[str, JobClaim]:
    """Ask Slurm which of these runs have a job that runs or will, by name; it is not asked if none was submitted."""
    submitted = [run for run in runs if (runs_folder() / run.id / SCRIPT).exists() or job_of(runs_folder() / run.id)]
    if not submitted:
        return {}
    # Imported here because most folders have no jobs.
    from railbed.cli.run.signals import run_until_ended
    from railbed.transport.queue import own_jobs

    try:
        live = [job for job in run_until_ended(own_jobs()).values() if job.is_live]
    except RailbedError as error:
        return {run.id: _unknown(run, error) for run in submitted if run.status not in ENDED}
    by_number = {job.id: job for job in live}
    by_place = {place: job for job in live if job.folder and (place := _place(Path(job.folder)))}
    claims = {}
    for run in submitted:
        # Either is reason enough to keep a run: a folder may have another path here, and a number may be missing.
        named, place = job_of(runs_folder() / run.id), _place(runs_folder() / run.id)
        job = by_place.get(place) if place else None
        if job := job or (by_number.get(named.number) if named else None):
            claims[run.id] = _listed(run.id, job)
    return claims


def _unknown(run: RunSummary, error: RailbedError) -> JobClaim:
    return JobClaim(
        reason=f"Slurm cannot be asked whether its job has ended: {error.message}",
        remedy=f"repeat this where Slurm answers, or remove {runs_folder() / run.id} yourself",
        is_certain=False,
    )


def _listed(run: str, job: QueuedJob) -> JobClaim:
    return JobClaim(reason=f"its job {job.id} is {job.in_words}", remedy=f"`railbed runs --stop {run}` ends it")


def _place(folder: Path) -> tuple[int, int] | None:
    """Return what identifies a folder, whatever its path."""
    with suppress(OSError):
        about = folder.stat()
        return about.st_dev, about.st_ino
    return None
