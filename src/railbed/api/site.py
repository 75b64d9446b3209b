"""The clusters that a verb works on without a cluster file being named: this folder's, a recording's, this machine."""

from __future__ import annotations

import os
import sys
from contextlib import aclosing
from pathlib import Path

from railbed import clusterfile
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import LOCAL_HOST, Cluster, Node
from railbed.model.events import ClusterBuilt
from railbed.model.text import exists, is_folder
from railbed.present.wording import DEFAULT_CLUSTER
from railbed.store.find import cluster_to_act_on
from railbed.store.run import ABOUT
from railbed.transport.base import targets_of
from railbed.transport.local import connect_local

LOCAL_NAME = "local"


def built_in_local() -> Cluster:
    """Return the built-in cluster: this machine, before it is discovered."""
    return Cluster(name=LOCAL_NAME, nodes={LOCAL_NAME: Node(host=LOCAL_HOST, python=sys.executable)})


def default_cluster() -> Cluster:
    """Return the cluster of the cluster file in this folder; raise ForeignRun if it is that of somebody else's run."""
    return cluster_to_act_on(Path.cwd()) if os.path.lexists(ABOUT) else clusterfile.load(DEFAULT_CLUSTER)


def recording_folder(replay: Path) -> Path:
    """Return the folder of a recording; for a run, the folder of its raw outputs."""
    if not is_folder(replay):
        raise UsageError(f"{replay} is not a folder", hint="name the folder of a recording or of a run")
    return replay / "raw" if is_folder(replay / "raw") else replay


def recorded_cluster_file(replay: Path) -> Path | None:
    """Return the cluster file of a recording or a run."""
    folder = recording_folder(replay)
    return next((path for path in (folder / "cluster.yaml", folder.parent / "cluster.yaml") if exists(path)), None)


async def discover_local(timeout: float) -> Cluster:
    """Return this machine as a cluster of one node, with the RDMA ports and GPUs it has."""
    # Imported here because most verbs have a cluster file.
    from railbed.discover.run import discover

    machine = built_in_local()
    async with (
        Fleet(targets_of(machine), connect_local, timeout=timeout) as fleet,
        aclosing(discover(machine, fleet, name=LOCAL_NAME, existing=machine)) as records,
    ):
        async for record in records:
            if isinstance(record, ClusterBuilt):
                return Cluster.model_validate(record.cluster)
    return machine
