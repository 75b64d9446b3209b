"""A Slurm job as a cluster: its nodes are read through `srun`, and Slurm's reasons reach the user."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from tests.support.cli import RAILBED, Result
from tests.support.labs import RunningLab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("netns")]
# Tests may run a Python that only root can read; an ordinary user gets that permission, and no other.
AS_NOBODY = (
    "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may write to; those of pytest are root's alone."""
    with tempfile.TemporaryDirectory(prefix="railbed-job-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def job(slurm_lab: RunningLab) -> Iterator[str]:
    """The number of a job that has all nodes."""
    started = slurm_lab.shell("controller", "salloc --no-kill -N 3 --no-shell 2>&1")
    assert started.code == 0, started
    number = started.out.split("job allocation ")[1].split()[0]
    yield number
    assert slurm_lab.shell("controller", f"scancel {number}").code == 0


def in_job(lab: RunningLab, folder: Path, job: str, *arguments: str, prefix: str = "", **variables: str) -> Result:
    """Run railbed on the controller as a shell in the job does."""
    settings = {"SLURM_JOB_ID": job, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), **variables}
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items() if value)
    return lab.shell("controller", f"cd {folder} && {words} {prefix} {RAILBED} {shlex.join(arguments)}")


def rail_subnet(lab: RunningLab) -> str:
    return str(clusterfile.load(lab.cluster).rails["rail0"].subnet)


def test_check_reads_the_nodes_of_the_job(slurm_lab: RunningLab, folder: Path, job: str) -> None:
    result = in_job(slurm_lab, folder, job, "check", "-c", "slurm", "--json")
    assert result.code == 0, result.problems
    verdicts = {(finding["check"], finding["subject"]): finding["verdict"] for finding in result.findings}
    assert {verdicts["reachable", f"node{number}"] for number in (1, 2, 3)} == {"ok"}
    (run,) = (folder / "runs").iterdir()
    cluster, lab = clusterfile.load(run / "cluster.yaml"), clusterfile.load(slurm_lab.cluster)
    assert [rail.subnet for rail in cluster.rails.values()] == [rail.subnet for rail in lab.rails.values()]
    assert {name: node.ports[0].address for name, node in cluster.nodes.items()} == {
        name: node.ports[0].address for name, node in lab.nodes.items()
    }
    assert slurm_lab.shell("controller", f"squeue --noheader --steps --job {job} --format %j").out == ""


def test_an_ordinary_user_with_a_site_file(slurm_lab: RunningLab, folder: Path) -> None:
    (folder / "site.yaml").write_text(f"name: ours\nrails: {{fabric: {{subnet: {rail_subnet(slurm_lab)}}}}}\n")
    (folder / "job").write_text(f"#!/bin/sh\nexec {RAILBED} check reachable mtu -c slurm:site.yaml --json\n")
    (folder / "job").chmod(0o755)
    line = f"cd {folder} && HOME={folder} {AS_NOBODY} salloc -N 2 {folder}/job"
    result = slurm_lab.shell("controller", line)
    assert result.code == 0, result
    assert {finding["subject"] for finding in result.findings if finding["check"] == "reachable"} == {"node1", "node2"}
    (run,) = (folder / "runs").iterdir()
    cluster = clusterfile.load(run / "cluster.yaml")
    assert (cluster.name, set(cluster.rails)) == ("ours", {"fabric"})
    assert {port.rail for _, port in cluster.ports()} == {"fabric"}


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("", "`-c slurm` needs a Slurm job, and this is not inside one"),
        ("99999", "Invalid job id specified"),
    ],
)
def test_no_job(slurm_lab: RunningLab, folder: Path, number: str, sentence: str) -> None:
    result = in_job(slurm_lab, folder, number, "check", "-c", "slurm")
    assert (result.code, sentence in result.err) == (2, True), result


def test_a_job_that_has_ended_and_its_cluster_file(slurm_lab: RunningLab, folder: Path, job: str) -> None:
    file = folder / "before.yaml"
    file.write_text(f"name: before\nlogin: {{slurm_job: {job}}}\nnodes: {{node1: {{host: 10.0.0.1}}}}\n")
    assert slurm_lab.shell("controller", f"scancel {job}").code == 0
    ended = in_job(slurm_lab, folder, job, "check", "-c", "slurm")
    assert ended.code == 2, ended
    assert re.search(rf"job {job} does not run: Slurm reports it as (CANCELLED|COMPLETING|COMPLETED)", ended.err)
    stale = in_job(slurm_lab, folder, job, "check", "reachable", "-c", "before.yaml", "--json")
    (finding,) = stale.findings
    assert finding["verdict"] == "fail"
    assert finding["observed"].startswith("Slurm: "), finding


def test_a_job_that_lost_a_node(slurm_lab: RunningLab, folder: Path, job: str) -> None:
    """The job's variables still have the node, and so does a cluster file from before."""
    file = folder / "before.yaml"
    nodes = "".join(f"  node{number}: {{host: 10.0.0.{number}}}\n" for number in (1, 2, 3))
    file.write_text(f"name: before\nlogin: {{slurm_job: {job}}}\nnodes:\n{nodes}")
    assert slurm_lab.shell("controller", f"scontrol update job {job} NumNodes=2").code == 0
    at_start = {"SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": "3"}
    result = in_job(slurm_lab, folder, job, "check", "reachable", "-c", "slurm", "--json", **at_start)
    assert result.code == 0, result
    assert re.search(rf"railbed: job {job} no longer has node3, which Slurm reports as IDLE", result.err)
    assert {finding["subject"] for finding in result.findings} == {"node1", "node2"}
    stale = in_job(slurm_lab, folder, job, "check", "reachable", "-c", "before.yaml", "--json")
    verdicts = {finding["subject"]: (finding["verdict"], finding["observed"]) for finding in stale.findings}
    assert verdicts["node1"][0] == "ok"
    assert verdicts["node3"][0] == "fail"
    assert verdicts["node3"][1].startswith("Slurm: "), verdicts
