"""`submit` is interrupted while sbatch works: a job that Slurm has taken is cancelled, or stays with its folder."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.cli import Result, railbed

SBATCH = 'pwd >"{folder}/taken"; kill -INT $PPID; exec sleep 60'
SQUEUE = 'echo "7|PENDING||Priority|$(cat "{folder}/taken")"'
SCANCEL = 'echo "$@" >>"{folder}/cancelled"'
SINFO = "echo 'lab*|0/2/0/2|1-infinite'"


def interrupted(folder: Path, **programs: str) -> Result:
    """Submit with these programs of Slurm, where sbatch interrupts its caller once it has taken the job."""
    (folder / "bin").mkdir()
    for name, script in {"sbatch": SBATCH, "sinfo": SINFO, "scancel": SCANCEL, **programs}.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script.format(folder=folder)}\n")
        (folder / "bin" / name).chmod(0o755)
    return railbed(folder, "submit", "check", "--no-follow", PATH=f"{folder / 'bin'}:{os.environ['PATH']}")


def test_the_job_is_cancelled_and_nothing_is_left(tmp_path: Path) -> None:
    result = interrupted(tmp_path, squeue=SQUEUE)
    assert result.code == 130, result
    assert (tmp_path / "cancelled").read_text() == "7\n"
    assert list((tmp_path / "runs").iterdir()) == []


def test_without_an_answer_of_slurm_the_folder_stays(tmp_path: Path) -> None:
    """The job may be in the queue, and is found by this folder."""
    result = interrupted(tmp_path, squeue="echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1")
    assert result.code == 130, result
    assert not (tmp_path / "cancelled").exists()
    (run,) = (tmp_path / "runs").iterdir()
    assert Path((tmp_path / "taken").read_text().strip()) == run


def test_a_job_that_slurm_did_not_take_leaves_nothing(tmp_path: Path) -> None:
    result = interrupted(tmp_path, squeue="exit 0")
    assert result.code == 130, result
    assert list((tmp_path / "runs").iterdir()) == []
