"""The built-in cluster `local`: this machine, discovered each time it is used."""

from __future__ import annotations

from railbed.api.local import discover_local
from railbed.cli.run.signals import run_until_ended
from railbed.model.cluster import Cluster


def local_cluster(timeout: float) -> Cluster:
    """Return this machine as a cluster of one node, with the RDMA ports and GPUs it has."""
    return run_until_ended(discover_local(timeout))
