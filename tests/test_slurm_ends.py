"""How Slurm itself ends a training: at its time limit, for a job that is more urgent, and on request."""

from __future__ import annotations

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import User, jobs, until
from tests.support.submitted import LONG, Job, submit

pytestmark = [pytest.mark.netns, pytest.mark.soak, pytest.mark.xdist_group("slurm")]


def training(user: User, *options: str) -> Job:
    """Submit a training, and wait until it trains."""
    job = submit(user, "train", "small.yaml", "--nodes", "2", "--set", LONG, "--no-check", *options)
    job.until(lambda: job.step >= 12)
    return job


def continue_and_stop(job: Job) -> None:
    """Start a requeued job again, and see that it continues where it was."""
    reached = job.step
    job.start_now()
    job.until(lambda: bool(job.events("resumed")) and job.step > reached)
    assert 0 < job.events("resumed")[-1]["data"]["step"] <= reached
    assert job.user.railbed("runs", "--stop", job.folder.name).code == 0
    assert jobs(job.user.lab, str(job.number)) == []


def test_a_time_limit(slurm_user: User) -> None:
    job = training(slurm_user, "--time", "2", "--notice", "40")
    job.until(lambda: bool(job.events("requeued")))
    (requeued,) = job.events("requeued")
    assert "its time limit is near" in requeued["message"]
    continue_and_stop(job)
    assert job.events("resumed")[-1]["data"]["step"] >= requeued["data"]["step"] > 0


def test_a_job_that_is_more_urgent(slurm_user: User, slurm_lab: RunningLab) -> None:
    job = training(slurm_user)
    urgent = slurm_lab.run_inside(
        "controller", "cd /; sbatch --parsable -p urgent -N3 --exclusive -o /dev/null --wrap='sleep 900'"
    )
    assert urgent.code == 0, urgent
    until(lambda: jobs(slurm_lab, urgent.out.strip()) == [f"{urgent.out.strip()} RUNNING"])
    until(lambda: job.status == "waiting")
    assert slurm_lab.run_inside("controller", f"scancel {urgent.out.strip()}").code == 0
    continue_and_stop(job)


def test_an_administrator_who_requeues_it(slurm_user: User, slurm_lab: RunningLab) -> None:
    job = training(slurm_user)
    assert slurm_lab.run_inside("controller", f"scontrol requeue {job.number}").code == 0
    until(lambda: job.status == "waiting")
    continue_and_stop(job)


def test_a_stopped_run_is_submitted_again(slurm_user: User) -> None:
    job = training(slurm_user)
    assert slurm_user.railbed("runs", "--stop", job.folder.name).code == 0
    reached, saved = job.step, job.events("checkpoint_copied")[-1]["data"]["step"]
    again = submit(slurm_user, "train", "--resume", job.folder.name, "--nodes", "3")
    again.until(lambda: bool(again.events("resumed")) and again.step > reached)
    assert saved <= again.events("resumed")[0]["data"]["step"] <= reached
    assert slurm_user.railbed("runs", "--stop", again.folder.name).code == 0


def test_a_benchmark_to_its_end(slurm_user: User) -> None:
    result = slurm_user.railbed("submit", "bench", "quick", "--nodes", "2", "--json")
    failed = {finding["check"] for finding in result.findings if finding["verdict"] == "fail"}
    assert (result.code, failed) == (1, {"bench_line_rate"}), result.problems  # links of the lab are slower than cards
    measured = {record["name"] for record in result.records if record["kind"] == "measurement"}
    assert "bandwidth" in measured
