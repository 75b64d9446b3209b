"""Waiting and requeued jobs in the lab with Slurm, beside runs that are forged, replaced, or of other users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import User, jobs, states, until, user_of
from tests.support.strangers import as_stranger
from tests.support.submitted import Job, submit

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
HELD = ("check", "reachable", "--sbatch=--hold")
REPLACE = 'mv "$1" "$1.away"; mkdir "$1"; cp "$2" "$1/run.json"; ln -s "$3" "$1/output.txt"; chmod 0777 "$1"'
"""Puts another folder in place of a run: its path, a readable run.json, and the file that is to be changed."""


@pytest.fixture(params=["nobody", "root"])
def user(request: pytest.FixtureRequest, slurm_lab: RunningLab) -> Iterator[User]:
    """A user on the controller who trains nothing."""
    with user_of(slurm_lab, request.param) as user:
        private = {"XDG_STATE_HOME": str(user.folder / "state")}
        yield replace(user, variables=private)
        slurm_lab.run_inside("controller", f"scancel --user {user.name}")
        until(lambda: not jobs(slurm_lab) and set(states(slurm_lab).values()) == {"idle"})


def test_a_forged_number_reaches_no_other_job(user: User, slurm_lab: RunningLab) -> None:
    first, second = submit(user, *HELD), submit(user, *HELD)
    about = second.folder / "job.json"
    true = about.read_text()
    about.write_text(json.dumps(json.loads(true) | {"job": first.number}))
    for option in ("--stop", "--attach"):
        refused = user.railbed("runs", option, second.folder.name)
        assert refused.code == 2
        assert f"job {first.number} is not that of {second.folder.name}, whose job.json names it" in refused.err
        assert f"it works in {first.folder}" in refused.err
    assert jobs(slurm_lab, str(first.number)) == [f"{first.number} PENDING"]
    assert second.status == "waiting"
    about.write_text(true)
    assert user.railbed("runs", "--stop", second.folder.name).code == 0
    assert jobs(slurm_lab) == [f"{first.number} PENDING"]


@pytest.mark.parametrize("user", ["nobody"], indirect=True)
def test_root_is_told_whose_job_it_is(user: User, slurm_lab: RunningLab) -> None:
    job = submit(user, *HELD)
    root = User(slurm_lab, "root", user.folder)
    refused = root.railbed("runs", "--stop", job.folder.name)
    assert (refused.code, f"{job.folder.name} is a run of nobody" in refused.err) == (2, True), refused
    assert jobs(slurm_lab, str(job.number)) == [f"{job.number} PENDING"]
    assert job.status == "waiting"


@pytest.mark.parametrize("user", ["root"], indirect=True)
def test_a_job_writes_nothing_into_a_folder_that_took_the_place_of_its_run(
    user: User, slurm_lab: RunningLab, tmp_path: Path
) -> None:
    job = submit(user, *HELD)
    precious = user.folder / "precious"
    precious.write_text("dear\n")
    about = tmp_path.parent / "run.json"
    about.write_bytes((job.folder / "run.json").read_bytes())
    public = user.folder / "run.json"
    public.write_bytes(about.read_bytes())
    (user.folder / "runs").chmod(0o777)
    as_stranger(REPLACE, job.folder, public, precious)
    before = sorted(path.name for path in job.folder.iterdir())
    job.control("scontrol", "release", str(job.number))
    until(lambda: jobs(slurm_lab, str(job.number)) == [])
    assert (precious.read_text(), sorted(path.name for path in job.folder.iterdir())) == ("dear\n", before)
    assert "ExitCode=73:0" in job.control("scontrol", "show", "job", str(job.number))


def requeued(user: User) -> Job:
    """Return a training that Slurm has put back into the queue."""
    job = submit(user, "train", "small.yaml", "--nodes", "1", "--no-check", "--sample", "0")
    until(lambda: jobs(user.lab, str(job.number)) == [f"{job.number} RUNNING"])
    assert user.lab.run_inside("controller", f"scontrol requeuehold {job.number}").code == 0
    until(lambda: jobs(user.lab, str(job.number)) == [f"{job.number} PENDING"])
    return job


def test_cleaning_keeps_what_slurm_lists(user: User, slurm_lab: RunningLab) -> None:
    """Before the first start, between two, and by name; a run whose job has ended goes."""
    queued = [submit(user, *HELD), requeued(user)]
    ended = submit(user, *HELD)
    assert user.railbed("runs", "--stop", ended.folder.name).code == 0
    for words in (("--yes",), ("--yes", "--keep", "1"), *(("--yes", job.folder.name) for job in queued)):
        cleaned = user.railbed("runs", "--clean", *words)
        for job in queued:
            assert (job.folder / "job.json").exists(), cleaned
        if len(words) == 1:
            assert cleaned.code == 0, cleaned
            for job in queued:
                assert f"stays: {job.folder.name}: its job {job.number} is pending (" in cleaned.err
                assert f"`railbed runs --stop {job.folder.name}` ends it" in cleaned.err
        elif words[1] != "--keep":
            assert (cleaned.code, f"`railbed runs --stop {words[1]}` ends it" in cleaned.err) == (2, True), cleaned
    assert not ended.folder.exists()
    assert len(jobs(slurm_lab)) == 2


def test_without_slurms_answer_runs_with_jobs_stay(user: User) -> None:
    job = submit(user, *HELD)
    silent = {"SLURM_CONF": "/nonexistent"}
    cleaned = user.railbed("runs", "--clean", "--yes", **silent)
    assert (cleaned.code, job.folder.exists()) == (3, True), cleaned
    assert f"stays: {job.folder.name}: Slurm cannot be asked whether its job has ended: " in cleaned.err
