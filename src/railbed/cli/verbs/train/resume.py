"""`railbed train --resume RUN`: which run continues, where, and with which options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar, cast

import typer

from railbed.api.kinds import RESTARTABLE, RESUMABLE
from railbed.api.site import built_in_local
from railbed.api.train.earlier import EarlierRun, earlier_run, own_cluster, require_common_node
from railbed.cli.background.runs import training_run, was_given
from railbed.cli.site import given_cluster
from railbed.cli.slurm.ahead import Ahead
from railbed.model.cluster import Cluster
from railbed.store import NEWEST

T = TypeVar("T")


def run_to_resume(wanted: str, *, from_start: bool) -> EarlierRun:
    """Return the run of this name or folder, or the newest; raise UsageError if it cannot continue."""
    folder, summary = training_run(wanted, RESTARTABLE if from_start else RESUMABLE)
    return earlier_run(folder, summary, wanted=summary.id if wanted == NEWEST else wanted)


def setting(context: typer.Context, earlier: EarlierRun, name: str, value: T) -> T:
    """Return the value of an option: from the command line, or that of the earlier run."""
    return value if was_given(context, name) else cast("T", earlier.options.get(name, value))


def site_of(earlier: EarlierRun, file: Path | None, ahead: Ahead) -> Cluster:
    """Return where it continues: on its own cluster, or on another that has at least one of its nodes."""
    if file is None:
        cluster = own_cluster(earlier)
        nodes = ", ".join(cluster.nodes)
        sys.stderr.write(f"{earlier.id} continues on its own cluster, {cluster.name} ({nodes})\n")
        return cluster
    other = given_cluster(file, None, ahead=ahead) or built_in_local()
    require_common_node(earlier, other, str(file))
    return other
