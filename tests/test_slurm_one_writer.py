"""In the lab with Slurm, a run has one job and one writer; a job without a note is found by the folder of its run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import User, jobs, states, until, user_of
from tests.support.submitted import LONG, Job, submit

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
HELD = ("--sbatch=--hold", "--no-follow", "--json")
KILLED = '#!/bin/sh\n{sbatch} "$@" >"{answer}"\nkill -KILL $PPID\n'
"""An sbatch that submits the job, and whose caller is killed before it can read the answer."""


@pytest.fixture
def user(slurm_lab: RunningLab) -> Iterator[User]:
    """An ordinary user on the controller who trains nothing."""
    with user_of(slurm_lab, "nobody") as user:
        yield replace(user, variables={"XDG_STATE_HOME": str(user.folder / "state")})
        slurm_lab.run_inside("controller", f"scancel --user {user.name}")
        until(lambda: not jobs(slurm_lab) and set(states(slurm_lab).values()) == {"idle"})


def submit_and_die(user: User) -> Job:
    """Submit a job that is held; the command is killed once Slurm has taken it, before it knows the number."""
    programs, answer = user.folder / "bin", user.folder / "answer"
    programs.mkdir()
    (programs / "sbatch").write_text(KILLED.format(sbatch="/usr/bin/sbatch", answer=answer))
    (programs / "sbatch").chmod(0o755)
    variables = {**user.variables, "PATH": f"{programs}:{os.environ['PATH']}"}
    killed = replace(user, variables=variables).railbed("submit", "check", "reachable", *HELD)
    assert killed.code != 0
    (folder,) = user.runs
    assert not (folder / "job.json").exists()
    return Job(user, int(answer.read_text()), folder)


def test_a_job_that_nobody_noted_is_listed_and_stopped(user: User, slurm_lab: RunningLab) -> None:
    job = submit_and_die(user)
    assert f"job {job.number} pending (JobHeldUser)" in user.railbed("runs").out
    (line,) = user.railbed("runs", "--json").records
    assert (line["job"], line["job_state"]) == (job.number, "PENDING")
    stopped = user.railbed("runs", "--stop", job.folder.name)
    assert (stopped.code, stopped.out) == (0, f"job {job.number} of {job.folder.name} has ended\n"), stopped
    assert jobs(slurm_lab, str(job.number)) == []
    assert job.status == "stopped"


def test_a_job_that_nobody_noted_stores_its_own_number(user: User) -> None:
    job = submit_and_die(user)
    job.control("scontrol", "release", str(job.number))
    attached = user.railbed("runs", "--attach", job.folder.name, "--json")
    assert attached.code == 0, attached
    assert {finding["verdict"] for finding in attached.findings} == {"ok"}
    assert json.loads((job.folder / "job.json").read_text())["job"] == job.number
    assert job.status == "done"


def test_a_run_that_was_never_submitted_says_so(user: User) -> None:
    job = submit_and_die(user)
    job.control("scancel", str(job.number))
    until(lambda: not jobs(user.lab, str(job.number)))
    assert "has no job" in user.railbed("runs").out
    stopped = user.railbed("runs", "--stop", job.folder.name)
    assert (stopped.code, "Slurm lists no job of it" in stopped.out) == (0, True), stopped
    assert job.status == "stopped"


def by_hand(job: Job, *options: str) -> str:
    """Submit the script of a run once more, as a person could, and return what its jobs print."""
    output = job.user.folder / "by-hand.txt"
    words = ["sbatch", "--parsable", f"--chdir={job.folder}", f"--output={output}", "--open-mode=append", *options]
    number = job.control(*words, str(job.folder / "job.sh")).strip()
    job.user.run("scontrol", "release", number)  # the script has the options of the run's own job
    until(lambda: not jobs(job.user.lab, number))
    texts = (path.read_text() for path in (output, job.folder / "output.txt") if path.exists())
    return "".join(texts)


def test_the_jobs_of_an_array_do_not_write_one_run(user: User) -> None:
    job = submit(user, "check", "reachable", "--sbatch=--hold")
    before = (job.folder / "run.json").read_bytes()
    printed = by_hand(job, "--array=1-2", "--nodes=1")
    assert printed.count(f"whose parts would all write {job.folder.name}") == 2, printed
    assert ((job.folder / "run.json").read_bytes(), job.records) == (before, [])


def test_a_second_job_does_not_write_a_run_in_progress(slurm_user: User) -> None:
    """The first one trains on, and stays the job of the run."""
    job = submit(slurm_user, "train", "small.yaml", "--nodes", "1", "--set", LONG, "--no-check", "--share")
    job.until(lambda: job.step >= 3)
    cluster = (job.folder / "cluster.yaml").read_bytes()
    printed = by_hand(job, "--nodes=1", "--oversubscribe", "--nodelist=node3")
    assert f"is writing {job.folder.name}: nothing was changed" in printed, printed
    assert f"of job {job.number}" in printed
    step = job.step
    job.until(lambda: job.step > step)
    assert len(job.events("generation")) == 1
    assert (job.status, (job.folder / "cluster.yaml").read_bytes()) == ("running", cluster)
    assert json.loads((job.folder / "job.json").read_text())["job"] == job.number
    stopped = slurm_user.railbed("runs", "--stop", job.folder.name)
    assert stopped.code == 0, stopped
