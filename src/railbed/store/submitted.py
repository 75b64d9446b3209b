"""The Slurm job of a run: `job.json` in the run's folder, beside the batch script."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.model.regular import read_regular
from railbed.store.ownership import Unprovable, is_own_mac, sign
from railbed.store.run import PRIVATE, write_atomically

JOB, SCRIPT = "job.json", "job.sh"
LARGEST_BYTES = 1 << 16
SUBJECT = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """The job that a run was submitted as."""

    number: int
    submitted: float
    run: str = ""
    """Name of the run."""
    proof: str = ""
    """That this user submitted it."""


def note_job(folder: Path, number: int) -> None:
    """Store the number of a run's job, which only Slurm's answer to its submission contains."""
    content: dict[str, object] = {"job": number, "submitted": time.time(), "run": folder.name}
    with suppress(Unprovable):  # the run itself reports it
        content["proof"] = sign(folder.name, SUBJECT, _signed(number))
    write_atomically(folder / JOB, json.dumps(content).encode() + b"\n", mode=PRIVATE)


def job_of(folder: Path) -> SubmittedJob | None:
    """Return the job that this user submitted a run as: others name jobs that are not theirs."""
    job = read_job(folder)
    return job if job and is_own_mac(job.proof, job.run, SUBJECT, _signed(job.number)) else None


def read_job(folder: Path) -> SubmittedJob | None:
    """Return the job of a run, as data; None if it was not submitted, or its file is damaged."""
    try:
        content = json.loads(read_regular(folder / JOB)[:LARGEST_BYTES])
        return SubmittedJob(
            number=int(content["job"]),
            submitted=float(content["submitted"]),
            run=str(content.get("run", "")),
            proof=str(content.get("proof", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError, AttributeError):
        return None


def _signed(number: int) -> bytes:
    return str(number).encode()
