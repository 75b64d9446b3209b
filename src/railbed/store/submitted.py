"""The Slurm job of a run: `job.json` in the run's folder, beside the batch script.

Anybody may have written that file. What Slurm lists decides whether a job is that of the run: it works in its folder.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from railbed.store.proof import read_regular
from railbed.store.run import PRIVATE, write_atomically

JOB, SCRIPT = "job.json", "job.sh"
LARGEST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """The job that a run was submitted as, according to its folder."""

    number: int
    submitted: float


def note_job(folder: Path, number: int) -> None:
    """Store the number of a run's job, which only Slurm's answer to its submission contains."""
    content = {"job": number, "submitted": time.time()}
    write_atomically(folder / JOB, json.dumps(content).encode() + b"\n", mode=PRIVATE)


def job_of(folder: Path) -> SubmittedJob | None:
    """Return the job that a run's folder names; None if the run was not submitted, or the file is damaged."""
    try:
        content = json.loads(read_regular(folder / JOB)[:LARGEST_BYTES])
        return SubmittedJob(number=int(content["job"]), submitted=float(content["submitted"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
