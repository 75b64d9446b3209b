"""Where a run continues that was trained in a Slurm job."""

from __future__ import annotations

from pathlib import Path

import pytest

from railbed import clusterfile
from railbed.api.train.earlier import EarlierRun
from railbed.cli.verbs.train.start import site_of
from railbed.errors import UsageError
from railbed.model.cluster import Cluster, Login, Node
from railbed.store import open_run
from railbed.train import recipes


def run_of(job: int | None, folder: Path = Path()) -> EarlierRun:
    nodes = {name: Node(host=name) for name in ("node1", "node2")}
    cluster = Cluster(name="own", nodes=nodes, login=Login(slurm_job=job))
    return EarlierRun(
        id="run1",
        wanted="run1",
        job="run1",
        recipe=recipes.load("tiny", []),
        folder=folder,
        cluster=cluster,
        options={},
    )


@pytest.mark.usefixtures("runs_here")
def test_in_its_own_job_it_continues_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    text = clusterfile.dumps(run_of(7).cluster)
    with open_run("train", cluster_name="own", cluster_text=text) as run:
        earlier = run_of(7, run.folder)
    assert site_of(earlier, None) == earlier.cluster


@pytest.mark.parametrize(
    ("around", "hint"),
    [
        ("8", "add `-c slurm` to continue it on the nodes of this job"),
        (
            "",
            "start a job that has one of its nodes, such as `salloc -w node1`, "
            "and run `railbed train --resume run1 -c slurm` in it",
        ),
    ],
    ids=["in another job", "outside"],
)
def test_its_job_has_ended(monkeypatch: pytest.MonkeyPatch, around: str, hint: str) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", around)
    with pytest.raises(UsageError, match="run1 ran in Slurm job 7, and this is not inside that job") as refused:
        site_of(run_of(7), None)
    assert refused.value.hint == hint


@pytest.mark.parametrize(("job", "hint"), [(7, "salloc -w node1"), (None, "leave out --cluster")])
def test_a_cluster_without_any_of_its_nodes(tmp_path: Path, job: int | None, hint: str) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("name: other\nnodes:\n  node9: {host: 10.0.0.9}\n")
    with pytest.raises(UsageError, match="has none of the nodes of run1") as refused:
        site_of(run_of(job), file)
    assert hint in refused.value.hint
