"""The cluster that a function gets: as it is, as the path of its file, or the one of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from railbed import clusterfile
from railbed.api.reach import Reach
from railbed.api.site import LOCAL_NAME, built_in_local, default_cluster, recorded_cluster_file
from railbed.api.thread import run_apart
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.text import exists
from railbed.present.wording import DEFAULT_CLUSTER

ClusterLike = Cluster | str | os.PathLike[str] | None
"""A cluster, the path of its file, or None for `cluster.yaml` in this folder, else this machine."""


def load_cluster(path: str | os.PathLike[str] = DEFAULT_CLUSTER) -> Cluster:
    """Read a cluster file; raise ClusterFileError with the line and key of each mistake."""
    return clusterfile.load(Path(path))


def local(*, timeout: float = DEVICE_SECONDS) -> Cluster:
    """Return this machine as a cluster of one node, with the RDMA ports and GPUs that it has."""
    # Imported here because a cluster file, the usual case, needs nothing of discover.
    from railbed.api.site import discover_local

    return run_apart(discover_local(timeout))


def cluster_of(cluster: ClusterLike, reach: Reach, *, discovers: bool = True) -> Cluster:
    """Return the cluster that a function works on; this machine is discovered, unless nothing depends on its ports."""
    here: Callable[[], Cluster] = partial(local, timeout=reach.timeout) if discovers else built_in_local
    if isinstance(cluster, Cluster):
        return cluster
    if cluster is not None:
        path = Path(cluster)
        return here() if str(path) == LOCAL_NAME and not exists(path) else load_cluster(path)
    if reach.replay is not None and (recorded := recorded_cluster_file(reach.replay)):
        return load_cluster(recorded)
    return default_cluster() if exists(DEFAULT_CLUSTER) else here()


def required_cluster(cluster: ClusterLike, reach: Reach, verb: str) -> Cluster:
    """Return the cluster that a function works on, which must be in a file unless it is given."""
    if cluster is None and not reach.replay and not exists(DEFAULT_CLUSTER):
        raise UsageError(f"{verb} needs a cluster file", hint="`railbed discover` writes one")
    return cluster_of(cluster, reach)


def cluster_words(cluster: ClusterLike) -> list[str]:
    """Return the option that names the same cluster on the command line; one that has no file cannot be named."""
    return [] if cluster is None or isinstance(cluster, Cluster) else ["-c", os.fspath(cluster)]
