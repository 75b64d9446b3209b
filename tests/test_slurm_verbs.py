"""The verbs inside a Slurm job, on two of three nodes, as an ordinary user; `make soak` repeats them as root."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.labs import RunningLab
from tests.support.slurm import User, allocation, jobs, until
from tests.support.training import events, losses

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]
NODES = ["node1", "node2"]
PASSWORD = "of-nobody-77"  # noqa: S105 - of nothing
LEFT = "timeout 60 sh -c \"while pgrep -f 'railbed[.](train|launch)' || pgrep ^rank; do sleep 0.2; done\" >/dev/null"


@pytest.fixture
def user(slurm_user: User) -> Iterator[User]:
    """A user inside a job."""
    with allocation(slurm_user, f"--nodelist={','.join(NODES)}") as number:
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
    again = user.railbed("train", "--resume", run.name, "-c", "slurm", "--no-check", "--json")
    assert again.code == 0, again.err
    assert [event["data"]["step"] for event in events(again.records, "resumed")] == [20]
    outside = replace(user, variables={}).railbed("train", "--resume", run.name)
    assert (outside.code, outside.err.count("this is not inside that job")) == (2, 1)


def test_a_site_with_rules_of_its_own_and_a_cancelled_job(user: User, slurm_lab: RunningLab) -> None:
    """Several ranks on each node, through a launcher and with options of srun; the environment has a password.

    `nice` stands for the command of a container: what it starts has its priority, instead of its files.
    """
    site = user.folder / "railbed" / "slurm.yaml"
    text = site.read_text().replace("{python:", "{launcher: [nice, -n, '7'], python:")
    site.write_text(f"{text}login: {{slurm_options: [--wckey=of-the-site]}}\n")
    options = ("-c", "slurm", "--ranks", "2", "--set", "steps=100000", "--no-check")
    with user.training("small.yaml", *options, NEXUS_PASSWORD=PASSWORD) as run:
        run.until(lambda _: run.steps >= 1)
        (generation,) = events(run.records, "generation")
        assert generation["message"] == "4 ranks on node1, node2"
        shown = {node: slurm_lab.run_inside(node, "ps axeww -o ni,args").out for node in ("controller", *NODES)}
        assert_launched(shown)
        assert_secret(user, slurm_lab, shown)
        assert slurm_lab.run_inside("controller", f"scancel {user.variables['SLURM_JOB_ID']}").code == 0
        assert [slurm_lab.run_inside(node, LEFT).code for node in NODES] == [0, 0]
        assert run.end() == 3  # a job that has ended does not come back: it does not wait for the nodes
    until(lambda: jobs(slurm_lab) == [])


def assert_launched(shown: dict[str, str]) -> None:
    """Check that agents have the priority of their launcher, and steps the options of the site."""
    for node in NODES:
        lines = shown[node].splitlines()
        (agent,) = {int(line.split()[0]) for line in lines if "railbed.launch.node.agent" in line}
        (daemon,) = {int(line.split()[0]) for line in lines if "slurmd -D" in line}
        assert agent == daemon + 7
    assert "srun --wckey=of-the-site --overlap" in shown["controller"]


def assert_secret(user: User, lab: RunningLab, shown: dict[str, str]) -> None:
    """Check that Slurm's records and the processes of nodes have neither the secret of ranks nor the password."""
    (job_file, *_) = user.folder.glob(".railbed/runs/*/node1/rank0.g1.json")
    secret = json.loads(job_file.read_text())["secret"]
    stored = lab.run_inside("controller", "scontrol show step; squeue -s -o %all; scontrol -d show job").out
    assert "StepId=" in stored
    assert re.search(r"\bcode/[0-9a-f]{16}\b", shown["node1"])  # what is there is seen
    for text in (stored, *(shown[node] for node in NODES)):
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
