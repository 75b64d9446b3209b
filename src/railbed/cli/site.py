"""Which cluster a verb works on: that of a file, of a recording, of a Slurm job, or this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from railbed import clusterfile
from railbed.cli.hints import use_cluster_file
from railbed.cli.options import DEFAULT_CLUSTER
from railbed.errors import UsageError
from railbed.model.cluster import LOCAL_HOST, Cluster, Node
from railbed.model.text.paths import exists, is_folder
from railbed.store.run import ABOUT
from railbed.store.run_cluster import cluster_to_act_on

LOCAL_NAME = "local"
SLURM_NAME = "slurm"
"""The cluster that a Slurm job has; `slurm:FILE` names a site file, too."""


def built_in_local() -> Cluster:
    """Return the built-in cluster: this machine, before it is discovered."""
    return Cluster(name=LOCAL_NAME, nodes={LOCAL_NAME: Node(host=LOCAL_HOST, python=sys.executable)})


def given_cluster(file: Path | None, replay: Path | None) -> Cluster | None:
    """Return the cluster of the file, the recording, the Slurm job, or this folder; None means the built-in one."""
    use_cluster_file(file)
    if file is not None and (site := site_of_job(file)) is not None:
        # Imported here because it loads discover and Slurm's part of the transport, which no cluster file needs.
        from railbed.cli.slurm.allocation import allocation_cluster

        return allocation_cluster(site)
    if file is not None:
        return built_in_local() if str(file) == LOCAL_NAME and not exists(file) else clusterfile.load(file)
    if replay is not None:
        recorded = recorded_cluster_file(replay)
        if recorded:
            return clusterfile.load(recorded)
    return default_cluster() if exists(DEFAULT_CLUSTER) else None


def default_cluster() -> Cluster:
    """Return the cluster of the cluster file in this folder; raise ForeignRun if it is that of somebody else's run."""
    return cluster_to_act_on(Path.cwd()) if os.path.lexists(ABOUT) else clusterfile.load(DEFAULT_CLUSTER)


def site_of_job(file: Path) -> str | None:
    """Return the site file of `slurm` or `slurm:FILE`, empty if none is named; None if it is a file's own name."""
    name, _, site = str(file).partition(":")
    return site if name == SLURM_NAME and not exists(file) else None


def recording_folder(replay: Path) -> Path:
    """Return the folder of a recording; for a run, the folder of its raw outputs."""
    if not is_folder(replay):
        raise UsageError(f"{replay} is not a folder", hint="name the folder of a recording or of a run")
    return replay / "raw" if is_folder(replay / "raw") else replay


def recorded_cluster_file(replay: Path) -> Path | None:
    """Return the cluster file of a recording or a run."""
    folder = recording_folder(replay)
    return next((path for path in (folder / "cluster.yaml", folder.parent / "cluster.yaml") if exists(path)), None)
