"""Which cluster a verb works on: that of a file, of a recording, of a Slurm job, or this machine.

This machine is the built-in cluster `local`, discovered each time it is used. A trained model that a user names has a
cluster file of its own.
"""

from __future__ import annotations

from pathlib import Path

from railbed import clusterfile
from railbed.api.kinds import WITH_WEIGHTS
from railbed.api.site import LOCAL_NAME, built_in_local, default_cluster, discover_local, recorded_cluster_file
from railbed.cli.background.runs import training_run
from railbed.cli.hints import use_cluster_file
from railbed.cli.run.signals import run_until_ended
from railbed.model.cluster import Cluster
from railbed.model.text import exists
from railbed.present.wording import DEFAULT_CLUSTER
from railbed.store import NEWEST

SLURM_NAME = "slurm"
"""The cluster that a Slurm job has; `slurm:FILE` names a site file, too."""


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


def site_of_job(file: Path) -> str | None:
    """Return the site file of `slurm` or `slurm:FILE`, empty if none is named; None if it is a file's own name."""
    name, _, site = str(file).partition(":")
    return site if name == SLURM_NAME and not exists(file) else None


def local_cluster(timeout: float) -> Cluster:
    """Return this machine as a cluster of one node, with the RDMA ports and GPUs it has."""
    return run_until_ended(discover_local(timeout))


def chosen_model(word: str) -> str | Path:
    """Return the run or folder that a user names; for `newest`, print which run that is."""
    return training_run(word, WITH_WEIGHTS)[0] if word == NEWEST else word


def named_cluster(file: Path | None) -> Cluster | None:
    """Return the cluster of the file that a user names, or of the Slurm job; None if none is named."""
    return None if file is None else given_cluster(file, None) or built_in_local()
