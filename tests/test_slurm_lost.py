"""A submitted training that loses a node, and then its batch host."""

from __future__ import annotations

import time

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import NODES, User, jobs, until
from tests.support.submitted import BESIDE, LEFT, LONG, submit

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
TWO_MINUTES = 120.0
SLOW = ("slow", "rail0", "8M")
"""Makes steps long without keeping the processor busy."""


def test_a_node_dies_and_then_the_batch_host(slurm_user: User, slurm_lab: RunningLab) -> None:
    assert slurm_lab.fault(*SLOW).code == 0
    options = ("--set", LONG, "--set", "checkpoint.steps=3", "--no-check")
    job = submit(slurm_user, "train", "small.yaml", "--nodes", "3", *options)
    job.until(lambda: job.saved > 0)
    assert slurm_lab.fault("kill", "node3").code == 0
    job.until(lambda: len(job.events("generation")) == 2)
    assert job.events("generation")[1]["data"]["nodes"] == ["node1", "node2"]
    reached = job.step
    job.until(lambda: job.saved > reached)
    assert jobs(slurm_lab, str(job.number)) == [f"{job.number} RUNNING"]
    assert slurm_lab.fault("kill", "node1").code == 0
    killed = time.monotonic()
    until(lambda: jobs(slurm_lab, str(job.number)) == [f"{job.number} PENDING"])
    assert time.monotonic() - killed < TWO_MINUTES
    slurm_lab.heal()
    assert slurm_lab.fault(*SLOW).code == 0
    job.start_now()
    job.until(lambda: len(job.events("resumed")) == 2)
    assert job.events("generation")[2]["data"]["nodes"] == NODES
    assert any("its batch host node1 was silent" in event["message"] for event in job.events("notice"))
    resumed = job.events("resumed")[1]["data"]["step"]
    assert resumed >= reached
    job.until(lambda: job.saved > resumed)
    stopped = slurm_user.railbed("runs", "--stop", job.folder.name)
    assert stopped.code == 0, stopped
    assert job.status == "stopped"
    assert jobs(slurm_lab, str(job.number)) == []
    for node in NODES:
        assert slurm_lab.run_inside(node, LEFT).code == 0
        assert slurm_lab.run_inside(node, BESIDE).out == ""
