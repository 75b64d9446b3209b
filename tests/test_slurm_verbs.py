"""The verbs inside a Slurm job, on three nodes, as an ordinary user; `make soak` repeats them as root."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from railbed.launch.files.ship import own_code
from tests.support.labs import RunningLab
from tests.support.slurm import NODES, User, allocation, jobs, until
from tests.support.training import events, losses

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
PASSWORD = "of-nobody-77"  # noqa: S105 - of nothing
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


def test_a_secret_is_in_none_of_slurms_records(user: User, slurm_lab: RunningLab) -> None:
    """Ranks share a secret, and the user's environment may have passwords: steps and their arguments have neither."""
    with user.training("small.yaml", "-c", "slurm", "--set", "steps=100000", NEXUS_PASSWORD=PASSWORD) as run:
        run.until(lambda _: run.steps >= 1)
        (job_file, *_) = user.folder.glob(".railbed/runs/*/node1/rank0.g1.json")
        secret = json.loads(job_file.read_text())["secret"]
        shown = slurm_lab.shell("controller", "scontrol show step; squeue -s -o %all; scontrol -d show job").out
        arguments = [slurm_lab.shell(node, "ps axeww").out for node in ("controller", *NODES)]
    assert "StepId=" in shown
    assert own_code().name in arguments[1]  # what is there is seen
    for text in (shown, *arguments[1:]):
        assert secret not in text
        assert PASSWORD not in text


def test_bench_quick(user: User) -> None:
    """Interfaces of namespaces report 10 Gb/s, and the links of this lab have a tenth of that: bench notices."""
    result = user.railbed("bench", "quick", "-c", "slurm", "--json")
    failed = {finding["check"] for finding in result.findings if finding["verdict"] == "fail"}
    assert (result.code, failed) == (1, {"bench_line_rate"}), result.problems
    pairs = {
        (record["labels"]["from"], record["labels"]["to"])
        for record in result.records
        if record["kind"] == "measurement" and record["name"] == "bandwidth"
    }
    assert {node for pair in pairs for node in pair} == set(NODES)


def test_watch_the_nodes_of_a_job(user: User) -> None:
    result = user.railbed("watch", "-c", "slurm", "--for", "2", "--json")
    assert result.code == 0, result
    devices = {record["labels"]["device"] for record in result.records if record["kind"] == "measurement"}
    assert devices == set(NODES)


def test_several_ranks_on_each_node(user: User) -> None:
    options = ("--ranks", "2", "--set", "steps=3", "--set", "checkpoint.steps=1000")
    trained = user.railbed("train", "small.yaml", "-c", "slurm", *options, "--json")
    assert trained.code == 0, trained.err
    (generation,) = events(trained.records, "generation")
    assert generation["message"] == "6 ranks on node1, node2, node3"


def test_a_launcher_and_options_of_srun_from_the_site_file(user: User) -> None:
    """`nice` stands for the command of a container: what it starts has its priority, instead of its files."""
    site = user.folder / "railbed" / "slurm.yaml"
    text = site.read_text().replace("{python:", "{launcher: [nice, -n, '7'], python:")
    site.write_text(f"{text}login: {{slurm_options: [--wckey=of-the-site]}}\n")
    with user.training("small.yaml", "-c", "slurm", "--set", "steps=100000") as run:
        run.until(lambda _: run.steps >= 1)
        shown = user.lab.shell("node2", "ps -eo ni,args").out
        arguments = user.lab.shell("controller", "ps -eo args").out
    (agent,) = {int(line.split()[0]) for line in shown.splitlines() if "railbed.launch.node.agent" in line}
    (daemon,) = {int(line.split()[0]) for line in shown.splitlines() if line.endswith("slurmd -D")}
    assert agent == daemon + 7
    assert "srun --wckey=of-the-site --overlap" in arguments


def test_a_cancelled_job_leaves_nothing_on_the_nodes(user: User, slurm_lab: RunningLab) -> None:
    number = user.variables["SLURM_JOB_ID"]
    with user.training("small.yaml", "-c", "slurm", "--set", "steps=100000") as run:
        run.until(lambda _: run.steps >= 1)
        ranks = [slurm_lab.shell(node, "pgrep -fc 'railbed[.](train|launch)'").out.strip() for node in NODES]
        assert "0" not in ranks
        assert slurm_lab.shell("controller", f"scancel {number}").code == 0
        assert [slurm_lab.shell(node, LEFT).code for node in NODES] == [0] * 3
        assert run.end() == 3  # a job that has ended does not come back: it does not wait for the nodes
    until(lambda: jobs(slurm_lab) == [])
