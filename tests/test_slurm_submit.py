"""Submitted jobs in the lab with Slurm: followed, stopped, started again on other nodes, and what Slurm stores."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import NODES, UIDS, User, jobs, until
from tests.support.submitted import BESIDE, LEFT, LONG, submit
from tests.support.training import losses
from tests.test_train_faults import BATCH, generations_of, history

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
PASSWORD = "of-nobody-78"  # noqa: S105 - of nothing
STEPS = 40
SLOW = ("slow", "rail0", "4M")
"""Makes steps long without keeping the processor busy: a signal comes long before the last step."""


def test_before_the_limit_training_moves_to_other_nodes(slurm_user: User, slurm_lab: RunningLab) -> None:
    """A job of one node, which needs no rail, computes what is expected."""
    options = ("train", "small.yaml", "--set", f"steps={STEPS}", "--no-check", "--sample", "0")
    undisturbed = slurm_user.railbed("submit", *options, "--nodes", "1", "--json")
    assert undisturbed.code == 0, undisturbed.err
    assert slurm_lab.fault(*SLOW).code == 0
    job = submit(slurm_user, *options, "--nodes", "2")
    job.until(lambda: job.step >= 12)
    (first,) = (event["data"]["nodes"] for event in job.events("generation"))
    assert slurm_lab.run_inside("controller", f"scontrol update nodename={first[0]} state=drain reason=test").code == 0
    job.control("scancel", "--batch", "--signal=USR1", str(job.number))
    job.until(lambda: bool(job.events("requeued")))
    assert slurm_lab.fault("heal", "rail0").code == 0
    listed = [line for line in slurm_user.railbed("runs", "--json").records if line["id"] == job.folder.name]
    assert (listed[0]["job"], listed[0]["status"]) == (job.number, "waiting")
    job.start_now()
    followed = slurm_user.railbed("runs", "--attach", job.folder.name, "--json")
    assert followed.code == 0, followed.err
    others = [node for node in NODES if node != first[0]]
    assert [event["data"]["nodes"] for event in job.events("generation")] == [first, others]
    (requeued,), (resumed,) = job.events("requeued"), job.events("resumed")
    # A periodic checkpoint may be enough to leave; ranks may then save another state before they end, and it is used.
    assert 12 <= requeued["data"]["step"] <= resumed["data"]["step"]
    assert "its time limit is near" in requeued["message"]
    expected = losses([record for record in undisturbed.records if record["kind"] == "measurement"])
    assert losses(job.records) == pytest.approx(expected, rel=2e-4)
    assert sorted(expected) == list(range(1, STEPS + 1))
    used = history(generations_of(job.records), STEPS)
    assert (len(used), set(used.values())) == (STEPS * BATCH, {1}), "every sample exactly once"
    exported = slurm_user.railbed("export", job.folder.name, "weights")
    assert exported.code == 0, exported
    for name in ("manifest.json", "model.safetensors"):
        assert (slurm_user.folder / "weights" / name).read_bytes() == (job.folder / "model" / name).read_bytes()
    assert slurm_lab.run_inside("controller", "scontrol update nodename=node1 state=resume").code == 0


def test_a_cancelled_job_leaves_nothing_on_any_node(slurm_user: User, slurm_lab: RunningLab) -> None:
    job = submit(slurm_user, "train", "small.yaml", "--nodes", "2", "--set", LONG, "--no-check")
    job.until(lambda: job.step >= 3)
    job.control("scancel", str(job.number))
    until(lambda: jobs(slurm_lab, str(job.number)) == [])
    for node in NODES:
        assert slurm_lab.run_inside(node, LEFT).code == 0
        assert slurm_lab.run_inside(node, BESIDE).out == ""
    assert job.status == "stopped"
    assert job.step >= 3


def test_check_is_followed_and_slurm_gets_no_secret(slurm_user: User, slurm_lab: RunningLab) -> None:
    odd = slurm_user.folder / "a $(touch ran) #SBATCH --nodes=3 '\""
    odd.mkdir()
    os.chown(odd, UIDS[slurm_user.name], -1)
    inside = replace(slurm_user, variables={"RAILBED_RUNS": str(odd / "runs"), "NEXUS_PASSWORD": PASSWORD})
    result = inside.railbed("submit", "check", "reachable", "--nodes", "2", "--json")
    assert result.code == 0, result
    submitted = result.records[0]["data"]
    # Slurm chooses others than node1 and node2 while these complete the job of the test before.
    assert [finding["verdict"] for finding in result.findings] == ["ok", "ok"]
    assert {finding["subject"] for finding in result.findings} < set(NODES)
    assert Path(submitted["folder"]).parent == odd / "runs"
    assert "reachable" in (Path(submitted["folder"]) / "output.txt").read_text()
    assert not [path for path in slurm_user.folder.rglob("ran*") if path.name == "ran"]
    number = submitted["job"]
    stored = slurm_lab.run_inside(
        "controller", f"scontrol write batch_script {number} -; scontrol show job {number}"
    ).out
    assert "#SBATCH --nodes=2" in stored
    state = slurm_lab.cluster.parent / "slurm" / "state"
    texts = [stored.encode(), *(path.read_bytes() for path in state.rglob("*") if path.is_file())]
    assert any(b"HOME=" in text for text in texts), "what the job gets is seen"
    assert not any(PASSWORD.encode() in text for text in texts)
    assert not any(PASSWORD.encode() in path.read_bytes() for path in odd.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--partition", "nosuch"], "railbed: Slurm: invalid partition specified: nosuch\n"),
        (["--time", "soon"], "railbed: Slurm: Invalid --time specification\n"),
        (["--nodes", "9"], "railbed: the job requests 9 nodes, and the default partition gives a job at most 3\n"),
        (
            ["-N", "9", "-p", "urgent"],
            "9 nodes, and partition urgent gives a job at most 3\n",
        ),
    ],
)
def test_slurms_reason_for_refusing_a_job(slurm_user: User, options: list[str], sentence: str) -> None:
    result = slurm_user.railbed("submit", "check", *options)
    assert (result.code, sentence in result.err) == (2, True), result
    assert not slurm_user.runs


def test_a_job_that_is_cancelled_in_the_queue(slurm_user: User) -> None:
    job = submit(slurm_user, "bench", "quick", "--sbatch=--hold")
    listed = slurm_user.railbed("runs")
    assert f"job {job.number} pending (JobHeldUser)" in " ".join(listed.out.split())
    assert slurm_user.railbed("runs", "--stop", job.folder.name).code == 0
    assert job.status == "stopped"
    assert not (job.folder / "raw").exists()
