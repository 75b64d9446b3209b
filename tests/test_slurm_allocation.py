"""A Slurm job as a cluster: its nodes are read through `srun`, and Slurm's reasons reach the user."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from railbed import clusterfile
from tests.support.cli import RAILBED
from tests.support.labs import RunningLab
from tests.support.slurm import NODES, User, allocation, user_of

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("slurm")]


@pytest.fixture
def root(slurm_lab: RunningLab) -> Iterator[User]:
    with user_of(slurm_lab, "root") as user:
        yield user


@pytest.fixture
def nobody(slurm_lab: RunningLab) -> Iterator[User]:
    with user_of(slurm_lab, "nobody") as user:
        yield user


@pytest.fixture
def job(root: User) -> Iterator[str]:
    """The number of a job that has all nodes."""
    with allocation(root) as number:
        yield number


def rail_subnet(lab: RunningLab) -> str:
    return str(clusterfile.load(lab.cluster).rails["rail0"].subnet)


def test_check_reads_the_nodes_of_the_job(slurm_lab: RunningLab, root: User, job: str) -> None:
    result = root.inside(job).railbed("check", "-c", "slurm", "--json")
    assert result.code == 0, result.problems
    verdicts = {(finding["check"], finding["subject"]): finding["verdict"] for finding in result.findings}
    assert {verdicts["reachable", node] for node in NODES} == {"ok"}
    (run,) = root.runs
    cluster, lab = clusterfile.load(run / "cluster.yaml"), clusterfile.load(slurm_lab.cluster)
    assert [rail.subnet for rail in cluster.rails.values()] == [rail.subnet for rail in lab.rails.values()]
    assert {name: node.ports[0].address for name, node in cluster.nodes.items()} == {
        name: node.ports[0].address for name, node in lab.nodes.items()
    }
    assert cluster.training.rendezvous_port is None
    assert slurm_lab.shell("controller", f"squeue --noheader --steps --job {job} --format %j").out == ""


def test_an_ordinary_user_with_a_site_file(slurm_lab: RunningLab, nobody: User) -> None:
    folder = nobody.folder
    (folder / "site.yaml").write_text(
        f"name: ours\nrails: {{fabric: {{subnet: {rail_subnet(slurm_lab)}}}}}\ntraining: {{rendezvous_port: 4711}}\n"
    )
    (folder / "job").write_text(f"#!/bin/sh\nexec {RAILBED} check reachable mtu -c slurm:site.yaml --json\n")
    (folder / "job").chmod(0o755)
    result = nobody.run("salloc", "--nodelist=node1,node2", str(folder / "job"))
    assert result.code == 0, result
    assert {finding["subject"] for finding in result.findings if finding["check"] == "reachable"} == {"node1", "node2"}
    (run,) = nobody.runs
    cluster = clusterfile.load(run / "cluster.yaml")
    assert (cluster.name, set(cluster.rails), cluster.training.rendezvous_port) == ("ours", {"fabric"}, 4711)
    assert {port.rail for _, port in cluster.ports()} == {"fabric"}


def test_discover_writes_the_nodes_of_the_job(nobody: User) -> None:
    with allocation(nobody, "--nodelist=node1,node2") as job:
        inside = nobody.inside(job)
        written = inside.railbed("discover", "-c", "slurm")
        assert (written.code, "2 nodes, 1 rail" in written.err) == (0, True), written
        cluster = clusterfile.load(nobody.folder / "cluster.yaml")
        assert (list(cluster.nodes), cluster.login.slurm_job) == (["node1", "node2"], int(job))
        checked = inside.railbed("check", "reachable", "--json")  # with the file, and without asking Slurm for nodes
        assert {finding["verdict"] for finding in checked.findings} == {"ok"}
        unchanged = inside.railbed("discover", "-c", "slurm")
        assert (unchanged.code, "unchanged" in unchanged.err) == (0, True), unchanged
        refused = inside.railbed("discover", "node1", "-c", "slurm")
        assert (refused.code, "reads the nodes of the job, and no others" in refused.err) == (2, True), refused
    with allocation(nobody, "-N3") as job:
        differs = nobody.inside(job).railbed("discover", "-c", "slurm")
        assert (differs.code, "`railbed discover -c slurm --write`" in differs.err) == (1, True), differs
        assert "nodes.node3" in differs.out


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        ("", "`-c slurm` needs a Slurm job, and this is not inside one"),
        ("99999", "Invalid job id specified"),
    ],
)
def test_no_job(root: User, number: str, sentence: str) -> None:
    result = root.inside(number).railbed("check", "-c", "slurm")
    assert (result.code, sentence in result.err) == (2, True), result


def test_a_site_file_that_does_not_exist(root: User, job: str) -> None:
    result = root.inside(job).railbed("check", "-c", "slurm:nowhere.yaml")
    assert (result.code, "nowhere.yaml" in result.err, result.err.count("\n")) == (2, True, 2), result


def test_a_job_that_has_ended_and_its_cluster_file(root: User) -> None:
    with allocation(root) as job:
        pass
    (root.folder / "before.yaml").write_text(
        f"name: before\nlogin: {{slurm_job: {job}}}\nnodes: {{node1: {{host: 10.0.0.1}}}}\n"
    )
    ended = root.inside(job).railbed("check", "-c", "slurm")
    assert ended.code == 2, ended
    assert re.search(rf"job {job} does not run: Slurm reports it as (CANCELLED|COMPLETING|COMPLETED)", ended.err)
    stale = root.inside(job).railbed("check", "reachable", "-c", "before.yaml", "--json")
    (finding,) = stale.findings
    assert finding["verdict"] == "fail"
    assert finding["observed"].startswith("Slurm: "), finding


def test_a_job_that_lost_a_node(slurm_lab: RunningLab, root: User, job: str) -> None:
    """The job's variables still have the node, and so does a cluster file from before."""
    nodes = "".join(f"  node{number}: {{host: 10.0.0.{number}}}\n" for number in (1, 2, 3))
    (root.folder / "before.yaml").write_text(f"name: before\nlogin: {{slurm_job: {job}}}\nnodes:\n{nodes}")
    assert slurm_lab.shell("controller", f"scontrol update job {job} NumNodes=2").code == 0
    at_start = {"SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": "3"}
    inside = root.inside(job)
    result = inside.railbed("check", "reachable", "-c", "slurm", "--json", **at_start)
    assert result.code == 0, result
    assert re.search(rf"railbed: job {job} no longer has node3, which Slurm reports as IDLE", result.err)
    assert {finding["subject"] for finding in result.findings} == {"node1", "node2"}
    stale = inside.railbed("check", "reachable", "-c", "before.yaml", "--json")
    verdicts = {finding["subject"]: (finding["verdict"], finding["observed"]) for finding in stale.findings}
    assert verdicts["node1"][0] == "ok"
    assert verdicts["node3"][0] == "fail"
    assert verdicts["node3"][1].startswith("Slurm: "), verdicts
