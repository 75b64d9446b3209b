"""`railbed train --resume RUN`: reads recipe, cluster and options of the run from its folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import typer

from railbed.api.kinds import RESTARTABLE, RESUMABLE
from railbed.api.site import LOCAL_NAME, built_in_local
from railbed.cli.background.runs import to_attach, to_stop, training_run, was_given
from railbed.cli.site import given_cluster
from railbed.cli.slurm.ahead import Ahead
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.store import NEWEST
from railbed.store.find import begun
from railbed.store.run import CLUSTER
from railbed.store.run_cluster import cluster_to_act_on, cluster_to_read
from railbed.train import recipes
from railbed.train.recipe import Recipe

T = TypeVar("T")


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
    """As data: only `site_of` returns one to work on."""
    options: Mapping[str, Any]
    """Its options: `ranks`, `minimum`, `transport`, `sample_seconds`; runs of an older railbed may lack some."""


def earlier_run(wanted: str, *, from_start: bool) -> EarlierRun:
    """Return the run of this name or folder, or the newest; raise UsageError if it cannot continue."""
    folder, summary = training_run(wanted, RESTARTABLE if from_start else RESUMABLE)
    if summary.status == "running":
        hint = f"`{to_attach(summary.id)}` shows it, `{to_stop(summary.id)}` ends it"
        raise UsageError(f"{summary.id} is still running", hint=hint)
    started = begun(folder)
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
        wanted=summary.id if wanted == NEWEST else wanted,
        job=started.run,
        recipe=recipe,
        folder=folder,
        cluster=_cluster(folder),
        options={name: value for name, value in options.items() if value is not None},
    )


def setting(context: typer.Context, earlier: EarlierRun, name: str, value: T) -> T:
    """Return the value of an option: from the command line, or that of the earlier run."""
    return value if was_given(context, name) else cast("T", earlier.options.get(name, value))


def site_of(earlier: EarlierRun, file: Path | None, ahead: Ahead) -> Cluster:
    """Return where it continues: on its own cluster, or on another that has at least one of its nodes."""
    if file is None:
        _require_own_job(earlier)
        cluster = _unless_built_in(cluster_to_act_on(earlier.folder))
        nodes = ", ".join(cluster.nodes)
        sys.stderr.write(f"{earlier.id} continues on its own cluster, {cluster.name} ({nodes})\n")
        return cluster
    other = given_cluster(file, None, ahead=ahead) or built_in_local()
    if not other.nodes.keys() & earlier.cluster.nodes.keys():
        own = "leave out --cluster: the cluster file that is stored with the run is used"
        raise UsageError(
            f"{file} has none of the nodes of {earlier.id}, which ran on {', '.join(earlier.cluster.nodes)}",
            hint=_job_with_a_node_of(earlier) if earlier.cluster.login.slurm_job else own,
        )
    return other


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
