"""The Slurm job of a run: `job.json` in the run's folder, beside the batch script.

Anybody may have written that file. What Slurm lists decides whether a job is that of the run: it works in its folder.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from railbed.model.regular import read_regular
from railbed.store.run import PRIVATE, write_atomically

JOB, SCRIPT = "job.json", "job.sh"
LARGEST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """The job that a run was submitted as, according to its folder."""

    number: int
    submitted: float
    start: int = 0
    """How often Slurm had requeued the job when it last started to write the run."""


def note_job(folder: Path, number: int, start: int = 0) -> None:
    """Store the number of a run's job: from Slurm's answer to its submission, and again at every start of the job."""
    content = {"job": number, "submitted": time.time(), "start": start}
    write_atomically(folder / JOB, json.dumps(content).encode() + b"\n", mode=PRIVATE)


def was_submitted(folder: Path) -> bool:
    """Whether a run has a batch script or a job: who was killed while submitting it left only the script."""
    return (folder / SCRIPT).exists() or job_of(folder) is not None


def job_of(folder: Path) -> SubmittedJob | None:
    """Return the job that a run's folder names; None if the run was not submitted, or the file is damaged."""
    try:
        content = json.loads(read_regular(folder / JOB)[:LARGEST_BYTES])
        number, submitted = int(content["job"]), float(content["submitted"])
        return SubmittedJob(number=number, submitted=submitted, start=int(content.get("start", 0)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError, AttributeError):
        return None
