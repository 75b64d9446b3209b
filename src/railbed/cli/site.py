"""Which cluster a verb works on: that of a file, of a recording, or this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed import clusterfile
from railbed.cli.hints import use_cluster_file
from railbed.cli.options import DEFAULT_CLUSTER
from railbed.errors import UsageError
from railbed.model.cluster import LOCAL_HOST, Cluster, Node

LOCAL_NAME = "local"


def built_in_local() -> Cluster:
    """Return the built-in cluster: this machine, before it is discovered."""
    return Cluster(name=LOCAL_NAME, nodes={LOCAL_NAME: Node(host=LOCAL_HOST, python=sys.executable)})


def given_cluster(file: Path | None, replay: Path | None) -> Cluster | None:
    """Return the cluster of the file, of the recording, or of this folder; None means the built-in one."""
    use_cluster_file(file)
    if file is not None:
        return built_in_local() if str(file) == LOCAL_NAME and not file.exists() else clusterfile.load(file)
    if replay is not None:
        recorded = recorded_cluster_file(replay)
        if recorded:
            return clusterfile.load(recorded)
    return clusterfile.load(DEFAULT_CLUSTER) if DEFAULT_CLUSTER.exists() else None


def recording_folder(replay: Path) -> Path:
    """Return the folder of a recording; for a run, the folder of its raw outputs."""
    if not replay.is_dir():
        raise UsageError(f"{replay} is not a folder", hint="name the folder of a recording or of a run")
    return replay / "raw" if (replay / "raw").is_dir() else replay


def recorded_cluster_file(replay: Path) -> Path | None:
    """Return the cluster file of a recording or a run."""
    folder = recording_folder(replay)
    return next((path for path in (folder / "cluster.yaml", folder.parent / "cluster.yaml") if path.exists()), None)
