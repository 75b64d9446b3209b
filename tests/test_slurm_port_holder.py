"""Another user holds the port that follows from the number of a Slurm job, and those that its ranks have used."""

from __future__ import annotations

import pytest

from tests.support.held_ports import holding, kill_a_rank
from tests.support.labs import RunningLab
from tests.support.slurm import User, allocation
from tests.support.strangers import local_user
from tests.support.training import events

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
NODES = ["node1", "node2"]


def test_nobody_ends_a_training_of_a_job_by_holding_ports(slurm_user: User, slurm_lab: RunningLab) -> None:
    options = ("small.yaml", "-c", "slurm", "--set", "steps=100000", "--sample", "0")
    assert slurm_lab.fault("slow", "rail0", "20M").code == 0
    with local_user() as mallory, allocation(slurm_user, f"--nodelist={','.join(NODES)}") as number:
        inside, port = slurm_user.inside(number), 22_500 + int(number) % 6_500
        with holding(slurm_lab, mallory, NODES, port), inside.training(*options) as run:
            run.until(lambda _: run.steps >= 2)
            kill_a_rank(slurm_lab, "node2")
            run.until(lambda _: run.generation == 2 and run.steps >= 2)
    assert [event["data"]["nodes"] for event in events(run.records, "generation")] == [NODES] * 2
    assert events(run.records, "intrusion") == []
    assert events(run.records, "node_out") == []
