"""The verbs inside a Slurm job, on three nodes, as root and as an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import NODES, User, allocation, jobs, until
from tests.support.training import events, losses

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
LEFT = "timeout 60 sh -c \"while pgrep -f 'railbed[.](train|launch)' || pgrep ^rank; do sleep 0.2; done\" >/dev/null"


@pytest.fixture
def user(slurm_user: User) -> Iterator[User]:
    """A user inside a job that has all nodes."""
    with allocation(slurm_user) as number:
        yield slurm_user.inside(number)


def owners(user: User) -> set[int]:
    """Return who owns what the ranks wrote."""
    return {path.stat().st_uid for path in user.folder.glob(".railbed/runs/*/*/checkpoints/*/*")}


def test_training_and_what_is_known_about_it_afterwards(user: User) -> None:
    trained = user.railbed("train", "small.yaml", "-c", "slurm", "--set", "steps=20", "--json")
    assert trained.code == 0, trained.err
    (generation,) = events(trained.records, "generation")
    assert generation["data"]["nodes"] == NODES
    reported = losses(trained.records)
    assert sorted(reported) == list(range(1, 21))
    assert reported[20] < reported[1]
    assert owners(user) == {0 if user.name == "root" else 65534}
    (run,) = user.runs
    assert list((run / "series").iterdir())  # sampled every second
    assert user.railbed("diagnose", run.name).code in (0, 1)
    assert user.railbed("report", run.name).code == 0
    assert "done" in user.railbed("watch", run.name).out


def test_a_cancelled_job_leaves_nothing_on_the_nodes(user: User, slurm_lab: RunningLab) -> None:
    number = user.variables["SLURM_JOB_ID"]
    with user.training("small.yaml", "-c", "slurm", "--set", "steps=100000") as run:
        run.until(lambda _: run.steps >= 1)
        ranks = [slurm_lab.shell(node, "pgrep -fc 'railbed[.](train|launch)'").out.strip() for node in NODES]
        assert "0" not in ranks
        assert slurm_lab.shell("controller", f"scancel {number}").code == 0
        assert [slurm_lab.shell(node, LEFT).code for node in NODES] == [0] * 3
    until(lambda: jobs(slurm_lab) == [])
