"""The cluster of a run, which is data: only a run that this user made may decide what is executed and reached."""

from __future__ import annotations

from pathlib import Path

from railbed import clusterfile
from railbed.errors import UsageError, os_reason
from railbed.model.cluster import Cluster
from railbed.model.regular import open_regular
from railbed.store.proof import has_own_training, own_cluster_file
from railbed.store.run import CLUSTER


class ForeignRun(UsageError):
    """A run has no proof that this user made it."""


def cluster_to_read(folder: Path) -> Cluster:
    """Return the cluster of a run, to describe the run: nothing in it may be executed or reached."""
    path = folder / CLUSTER
    try:
        open_regular(path).close()
    except FileNotFoundError:
        pass  # the next line has the sentence for it
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {os_reason(error)}", hint="name a cluster file with -c FILE"
        ) from error
    return clusterfile.load(path)


def require_own_training(folder: Path) -> None:
    """Raise ForeignRun unless what a run trains, and under which name, is what this user started it with."""
    if not has_own_training(folder):
        raise ForeignRun(
            f"{folder.name} has no proof that you started this training here, so it is not continued",
            hint="start a run of your own with its recipe",
        )


def cluster_to_act_on(folder: Path) -> Cluster:
    """Return the cluster of a run, to work on it; raise ForeignRun unless this user made the run and its cluster."""
    if not (folder / CLUSTER).exists():
        raise UsageError(f"{folder.name} has no cluster file", hint="name it with -c FILE")
    content = own_cluster_file(folder)
    if content is None:
        raise ForeignRun(
            f"{folder.name} has no proof that you made it here and that its {CLUSTER} is unchanged, so its programs are"
            " not started and its hosts not reached",
            hint="name a cluster file of your own with -c FILE",
        )
    # The proven bytes: the file may be replaced at any moment.
    return clusterfile.loads(content.decode(), name=str(folder / CLUSTER))
