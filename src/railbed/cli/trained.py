"""The trained model that a user names, and the cluster file of its nodes."""

from __future__ import annotations

from pathlib import Path

from railbed.api.kinds import WITH_WEIGHTS
from railbed.api.site import built_in_local
from railbed.cli.background.runs import training_run
from railbed.cli.site import given_cluster
from railbed.model.cluster import Cluster
from railbed.store import NEWEST


def chosen_model(word: str) -> str | Path:
    """Return the run or folder that a user names; for `newest`, print which run that is."""
    return training_run(word, WITH_WEIGHTS)[0] if word == NEWEST else word


def named_cluster(file: Path | None) -> Cluster | None:
    """Return the cluster of the file that a user names, or of the Slurm job; None if none is named."""
    return None if file is None else given_cluster(file, None) or built_in_local()
