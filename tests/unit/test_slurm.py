"""What Slurm's commands print, and how nodes of a job are reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.cli.site import given_cluster
from railbed.errors import ClusterFileError, RailbedError, ToolMissing, Unreachable, UsageError
from railbed.model.cluster import Cluster, Login, Node
from railbed.transport.base import Command, Target, targets_of
from railbed.transport.connect import live_connector
from railbed.transport.slurm import SlurmJob, complaint, lost_nodes, read_job

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
