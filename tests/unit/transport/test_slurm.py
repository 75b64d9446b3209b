"""What Slurm's commands print, and how nodes of a job are reached."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from railbed import clusterfile
from railbed.cli.site import given_cluster
from railbed.cli.slurm.allocation import Allocation
from railbed.errors import ClusterFileError, Gone, ProgramRefused, RailbedError, ToolMissing, Unreachable, UsageError
from railbed.launch.fabric import fabric_of
from railbed.model.cluster import Cluster, Gpu, Login, Node
from railbed.transport.base import Command, Target, targets_of
from railbed.transport.connect import live_connector
from railbed.transport.slurm import SlurmJob, complaint, gpus_of, lost_nodes, parse_gres, read_job, step_options

NODES = """\
NodeName=a1 Arch=aarch64 CoresPerSocket=1 CPUTot=4 NodeAddr=127.0.0.1 NodeHostName=a1 State=ALLOCATED ThreadsPerCore=1
NodeName=a2 Arch=aarch64 CoresPerSocket=1 CPUTot=4 NodeAddr=no.such.host.invalid State=DOWN*+NOT_RESPONDING \
ThreadsPerCore=1 Reason=Not responding [slurm@2026-11-17T12:00:00]
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for commands in place of Slurm's."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "100")
    return tmp_path


def command(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def printing(programs: Path, name: str, text: str) -> None:
    (programs / f"{name}.txt").write_text(text)
    command(programs, name, f"cat {programs}/{name}.txt")


def test_a_running_job_has_the_nodes_and_addresses_that_slurm_reports(programs: Path) -> None:
    printing(programs, "squeue", "8|RUNNING|b1|None\n7|RUNNING|a[1-2]|None\n")
    printing(programs, "scontrol", NODES)
    job = asyncio.run(read_job(7))
    assert job == SlurmJob(id=7, nodes={"a1": "127.0.0.1", "a2": "no.such.host.invalid"})
    smaller = SlurmJob(id=7, nodes={"a1": "127.0.0.1"})
    assert asyncio.run(lost_nodes("a[1-2]", smaller)) == {"a2": "DOWN*+NOT_RESPONDING Not responding"}


@pytest.mark.parametrize(
    ("script", "kind", "sentence"),
    [
        ("echo '7|PENDING||Resources'", UsageError, "job 7 does not run: Slurm reports it as PENDING (Resources)"),
        ("echo '8|RUNNING|a1|None'", UsageError, "Slurm: Invalid job id specified: 7"),
        (
            "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
            UsageError,
            "Slurm: Invalid job id specified",
        ),
        (
            "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
            Unreachable,
            "Slurm: Unable to contact slurm controller (connect failure)",
        ),
        ("exit 1", Unreachable, "Slurm: squeue ended with 1"),
    ],
)
def test_slurms_own_reason_is_reported(programs: Path, script: str, kind: type[RailbedError], sentence: str) -> None:
    command(programs, "squeue", script)
    with pytest.raises(kind) as refused:
        asyncio.run(read_job(7))
    assert refused.value.message == sentence


def test_a_machine_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="squeue is not installed here"):
        asyncio.run(read_job(7))
    with pytest.raises(ToolMissing, match="srun is not installed here"):
        asyncio.run(outputs())


def test_complaints() -> None:
    text = "srun: Waiting\nsrun: error: Unable to create step for job 5: Requested nodes are busy\n"
    assert complaint(text) == "Unable to create step for job 5: Requested nodes are busy"
    assert complaint("something else\nmore\n") == "something else"


async def outputs() -> list[bytes]:
    """Return what two commands print on a node of job 7."""
    target = Target(name="a1", host="10.0.0.1", login=Login(slurm_job=7))
    async with live_connector() as connect, connect(target) as transport:
        commands = [Command(key="where", script="pwd"), Command(key="late", script="sleep 60", timeout=0.2)]
        return [output.stdout async for output in transport.run(commands)]


def test_commands_run_as_steps_of_the_job_without_our_secrets(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(programs))
    monkeypatch.setenv("NEXUS_PASSWORD", "of-nobody")
    command(
        programs,
        "srun",
        f'echo "$SLURM_MEM_PER_CPU $@" >>{programs}/calls; while [ "$1" != /bin/sh ]; do shift; done; exec "$@"',
    )
    assert asyncio.run(outputs()) == [f"{programs}\n".encode(), b""]
    first = (programs / "calls").read_text().splitlines()[0]
    assert first.startswith(" --overlap --no-kill")
    assert "--jobid=7 --nodelist=a1" in first
    (export,) = (word for word in first.split() if word.startswith("--export="))
    assert {"HOME", "PATH"} <= {*export.removeprefix("--export=").split(",")}
    assert "ALL" not in export
    assert "NEXUS_PASSWORD" not in export


def test_a_refused_step_is_a_node_out_of_reach(programs: Path) -> None:
    command(programs, "srun", "echo 'srun: error: Unable to confirm allocation for job 7: Invalid job id' >&2; exit 1")
    with pytest.raises(Unreachable, match="Slurm: Unable to confirm allocation for job 7: Invalid job id"):
        asyncio.run(outputs())


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Slurm job 7 has expired", Gone),
        ("Unable to create step for job 7: Requested node configuration is not available", Gone),
        ("Unable to create step for job 7: Job step creation temporarily disabled", ProgramRefused),
    ],
)
def test_a_job_that_has_ended_does_not_return(programs: Path, reason: str, kind: type[Unreachable]) -> None:
    command(programs, "srun", f"echo 'srun: error: {reason}' >&2; exit 1")
    with pytest.raises(kind) as refused:
        asyncio.run(outputs())
    assert type(refused.value) is kind


def test_the_login_decides_how_nodes_are_reached() -> None:
    nodes = {"a1": Node(host="10.0.0.1"), "here": Node(host="local")}
    cluster = Cluster(name="c", login=Login(slurm_job=7), nodes=nodes)
    assert {target.name: target.access for target in targets_of(cluster)} == {"a1": "srun", "here": "local"}


def test_a_site_file_may_lack_name_and_nodes(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("rails: {r: {subnet: 10.1.0.0/24}}\n")
    site = clusterfile.load_site(file, name="slurm-7", nodes={"a1": Node(host="10.0.0.1", python="/p")})
    assert (site.name, site.nodes["a1"].python, set(site.rails)) == ("slurm-7", "/p", {"r"})
    file.write_text("railz: {}\n")
    with pytest.raises(ClusterFileError, match="railz"):
        clusterfile.load_site(file, name="slurm-7", nodes={"a1": Node(host="10.0.0.1")})


def test_outside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(UsageError, match="needs a Slurm job, and this is not inside one"):
        given_cluster(Path("slurm"), None)


def test_the_resources_that_a_job_has_on_each_node(programs: Path) -> None:
    """Recorded from Slurm, with GPUs that were requested in total, so that nodes have different numbers of them."""
    cases = Path(__file__).parents[2] / "cases" / "slurm"
    printing(programs, "squeue", "7|RUNNING|node[1-3]|None\n")
    command(
        programs,
        "scontrol",
        f'case "$*" in *"show node"*) cat {cases}/nodes.txt;; *"show job"*) cat {cases}/job.txt;; '
        '*"hostnames node[2-3]"*) echo node2; echo node3;; *) echo "$3";; esac',
    )
    job = asyncio.run(read_job(7))
    assert job.options == {"node1": ("--gpus=3",), "node2": ("--gpus=1",), "node3": ("--gpus=1",)}
    assert job.gpus == {"node1": (0, 1, 2), "node2": (0,), "node3": (0,)}


@pytest.mark.parametrize(
    ("text", "options", "gpus"),
    [
        ("", ["--gres=none"], ()),
        ("(null)", ["--gres=none"], ()),
        ("gpu:4(IDX:0-3)", ["--gpus=4"], (0, 1, 2, 3)),
        ("gpu:a100:2(IDX:0,3),nic:1(CNT:1)", ["--gpus=2", "--gres=nic:1"], (0, 3)),
        ("gpu:a100:1(IDX:2),gpu:h100-80gb:1(IDX:7)", ["--gpus=2"], (2, 7)),
        ("gpu:a100:0", ["--gres=none"], ()),
        ("shard:4(0/4)", [], (0,)),
        ("lustre:bandwidth:4G", [], ()),
    ],
)
def test_generic_resources(text: str, options: list[str], gpus: tuple[int, ...]) -> None:
    parsed = parse_gres(text)
    assert (list(step_options(parsed)), gpus_of(parsed)) == (options, gpus)


def allocated(site: Cluster, **job: Any) -> Allocation:
    nodes = {"a1": "10.0.0.1", "a2": "10.0.0.2"}
    return Allocation.of(site, SlurmJob(id=12_345, nodes=nodes, **job))


def site_of(**settings: Any) -> Cluster:
    return Cluster.model_validate({"name": "s", "nodes": {"a1": {"host": "10.0.0.1"}}, **settings})


def test_steps_get_what_the_job_has_on_their_node() -> None:
    """Not what it requested: that is for all nodes, or for each task."""
    site = site_of(login={"slurm_options": ["--container-image=x.sqsh"]})
    machines = allocated(site, options={"a1": ("--gpus=2",)}).machines
    options = {target.name: target.login.slurm_options for target in targets_of(machines)}
    assert options == {
        "a1": ("--container-image=x.sqsh", "--gpus=2"),
        "a2": ("--container-image=x.sqsh",),
    }
    own = site_of(login={"slurm_options": ["--gres=none"]})
    assert targets_of(allocated(own, options={"a1": ("--gpus=2",)}).machines)[0].login.slurm_options == ("--gres=none",)


def test_ranks_of_a_job_without_gpus_do_not_use_those_of_others() -> None:
    machines = allocated(site_of(), options={"a1": ("--gres=none",)}).machines
    environments = {name: node.environment for name, node in fabric_of(machines, {}).items()}
    assert environments == {"a1": {"CUDA_VISIBLE_DEVICES": ""}, "a2": {}}


@pytest.mark.parametrize(
    ("assigned", "installed", "used"),
    [
        ({}, 4, ["gpu0", "gpu1", "gpu2", "gpu3"]),  # Slurm does not manage them
        ({"a1": (1, 3)}, 4, ["gpu1", "gpu3"]),
        ({"a1": (1, 3)}, 2, ["gpu0", "gpu1"]),  # the others are hidden from the job, and these have other numbers there
        ({"a1": ()}, 4, []),
    ],
)
def test_only_gpus_that_the_job_has_are_used(
    assigned: dict[str, tuple[int, ...]], installed: int, used: list[str]
) -> None:
    allocation = allocated(site_of(), gpus=assigned)
    gpus = tuple(Gpu(name=f"gpu{index}") for index in range(installed))
    nodes = {"a1": allocation.machines.nodes["a1"].model_copy(update={"gpus": gpus})}
    narrowed = allocation.narrow(allocation.machines.model_copy(update={"nodes": nodes}))
    assert [gpu.name for gpu in narrowed.nodes["a1"].gpus] == used


def test_a_job_takes_any_free_port_and_the_python_that_runs_railbed() -> None:
    """A port that follows from the job's number could be held by any user of a node beforehand."""
    training = allocated(site_of()).machines.training
    assert (training.rendezvous_port, training.python) == (None, sys.executable)
    site = site_of(training={"rendezvous_port": 4711, "launcher": ["apptainer", "exec", "x.sif"]})
    training = allocated(site).machines.training
    assert (training.rendezvous_port, training.python) == (4711, "python3")
    assert allocated(site).machines.interpreter_of("a2") == ("apptainer", "exec", "x.sif", "python3")


def test_options_of_the_site_come_before_ours(programs: Path) -> None:
    command(programs, "srun", f'echo "$@" >>{programs}/calls; while [ "$1" != /bin/sh ]; do shift; done; exec "$@"')
    login = Login(slurm_job=7, slurm_options=("--container-image=x.sqsh", "--nodes=9"))

    async def call() -> None:
        async with live_connector() as connect, connect(Target(name="a1", host="10.0.0.1", login=login)):
            pass

    asyncio.run(call())
    words = (programs / "calls").read_text().split()
    assert words[:2] == ["--container-image=x.sqsh", "--nodes=9"]
    assert words.index("--nodes=1") > 1


@pytest.mark.parametrize("option", ["container-image=x", "-w", "--Mem=0", "--x=a\nb", ""])
def test_what_is_not_an_option_is_refused(option: str) -> None:
    with pytest.raises(ValidationError):
        Login(slurm_options=(option,))
