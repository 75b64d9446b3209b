"""A training to continue: its recipe, cluster and options, from the folder of its run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railbed.api.site import LOCAL_NAME, built_in_local
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.store import RunSummary
from railbed.store.find import cluster_to_act_on, cluster_to_read, read_start
from railbed.store.run import CLUSTER
from railbed.train import recipes
from railbed.train.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run to continue."""

    id: str
    wanted: str
    """The user's argument: a name or a folder."""
    job: str
    """The name under which the nodes store its state."""
    recipe: Recipe
    folder: Path
    cluster: Cluster
    """As data: only `own_cluster` returns it to work on."""
    options: Mapping[str, Any]
    """Its options: `ranks`, `minimum`, `transport`, `sample_seconds`; runs of an older railbed may lack some."""


def earlier_run(folder: Path, summary: RunSummary, *, wanted: str) -> EarlierRun:
    """Return the training run of a folder; raise UsageError if it cannot continue."""
    if summary.verb != "train":
        raise UsageError(f"{folder.name} is not a training run", hint="`railbed runs` lists them")
    if summary.status == "running":
        hint = f"`railbed train --attach {summary.id}` shows it, `railbed train --stop {summary.id}` ends it"
        raise UsageError(f"{summary.id} is still running", hint=hint)
    started = read_start(folder)
    try:
        recipe = recipes.from_record(started.recipe)
    except ValueError:
        raise UsageError(
            f"the recipe in the records of {summary.id} is damaged or from another version of railbed"
        ) from None
    options = {
        "ranks": started.ranks,
        "minimum": started.minimum,
        "transport": started.transport,
        "sample_seconds": started.sample,
    }
    return EarlierRun(
        id=summary.id,
        wanted=wanted,
        job=started.run,
        recipe=recipe,
        folder=folder,
        cluster=_cluster(folder),
        options={name: value for name, value in options.items() if value is not None},
    )


def own_cluster(earlier: EarlierRun) -> Cluster:
    """Return the cluster of a run, to continue there; raise UsageError if its Slurm job is not the one around us."""
    _require_own_job(earlier)
    return _unless_built_in(cluster_to_act_on(earlier.folder))


def require_common_node(earlier: EarlierRun, other: Cluster, name: str) -> None:
    """Refuse to continue on a cluster, named like this, that has none of the nodes of a run: they have its state."""
    if not other.nodes.keys() & earlier.cluster.nodes.keys():
        own = "leave out --cluster: the cluster file that is stored with the run is used"
        raise UsageError(
            f"{name} has none of the nodes of {earlier.id}, which ran on {', '.join(earlier.cluster.nodes)}",
            hint=_job_with_a_node_of(earlier) if earlier.cluster.login.slurm_job else own,
        )


def _require_own_job(earlier: EarlierRun) -> None:
    """Refuse to continue in a Slurm job that is not the one around us: it has most likely ended."""
    job, here = earlier.cluster.login.slurm_job, os.environ.get("SLURM_JOB_ID", "")
    if job and here != str(job):
        same = "add `-c slurm` to continue it on the nodes of this job"
        raise UsageError(
            f"{earlier.id} ran in Slurm job {job}, and this is not inside that job",
            hint=same if here else _job_with_a_node_of(earlier),
        )


def _job_with_a_node_of(earlier: EarlierRun) -> str:
    node = next(iter(earlier.cluster.nodes))
    start = f"start a job that has one of its nodes, such as `salloc -w {node}`"
    return f"{start}, and run `railbed train --resume {earlier.id} -c slurm` in it"


def _cluster(folder: Path) -> Cluster:
    if not (folder / CLUSTER).exists():
        raise UsageError(f"{folder.name} has no cluster file", hint="resume another run")
    return _unless_built_in(cluster_to_read(folder))


def _unless_built_in(cluster: Cluster) -> Cluster:
    is_built_in = cluster.name == LOCAL_NAME and cluster.nodes.keys() == built_in_local().nodes.keys()
    return built_in_local() if is_built_in else cluster
