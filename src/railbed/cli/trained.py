"""Which trained model a verb works on: that of a run, on its nodes, or that of a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from railbed.api.kinds import WITH_WEIGHTS
from railbed.api.site import built_in_local
from railbed.cli.background.runs import training_run
from railbed.cli.site import given_cluster
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.text.paths import expand_home, is_file, is_folder
from railbed.store import NEWEST
from railbed.store.find import begun
from railbed.store.run import ABOUT
from railbed.store.run_cluster import cluster_to_act_on
from railbed.store.submitted import job_of
from railbed.train.base.files import CONFIG
from railbed.train.results.adapter import is_adapter
from railbed.train.results.sources import MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """A model, and the cluster whose nodes have it."""

    cluster: Cluster
    run: str | None = None
    """Name of a run on its nodes; or else:"""
    folder: str = ""
    """A folder on the node."""
    node: str = ""
    """The node to use; for a run, empty means any."""
    title: str = ""
    """Name of the run's folder."""
    is_stored: bool = False
    """The folder is that of a run whose nodes stored the weights in its own folder."""


def trained_model(word: str, cluster_file: Path | None, node: str | None) -> TrainedModel:
    """Return the model that a user names: a run by name or folder, or the folder of a model on a node or here."""
    if word == NEWEST:
        return _of_run(word, cluster_file, node)
    path = expand_home(word)
    is_run = is_file(path / ABOUT)
    elsewhere = bool(cluster_file or node) and "/" in word and not is_run
    if elsewhere:
        site = given_cluster(cluster_file, None) or built_in_local()
        return TrainedModel(cluster=site, folder=word, node=_node(site, node))
    if is_file(path / CONFIG) or is_adapter(path):
        site = built_in_local()
        return TrainedModel(cluster=site, folder=str(path.resolve()), node=_node(site, node))
    if is_folder(path) and not is_run:
        raise UsageError(f"{path} is neither a run nor the folder of a model: it has no {CONFIG}")
    if "/" in word and not is_run:
        raise UsageError(f"there is no folder {path}", hint="name a run, or the folder of a model")
    return _of_run(word, cluster_file, node)


def _of_run(word: str, cluster_file: Path | None, node: str | None) -> TrainedModel:
    folder, _ = training_run(word, WITH_WEIGHTS)
    started = begun(folder)
    if started.recipe.get("traffic"):
        raise UsageError(f"{folder.name} is a network load: it trains no model and has no weights")
    own = folder / MODEL
    if job_of(folder) and own.is_dir():
        site = built_in_local()
        stored = str(own.resolve())
        return TrainedModel(cluster=site, folder=stored, node=_node(site, None), title=folder.name, is_stored=True)
    site = (given_cluster(cluster_file, None) if cluster_file else None) or cluster_to_act_on(folder)
    return TrainedModel(cluster=site, run=started.run, node=_node(site, node) if node else "", title=folder.name)


def _node(cluster: Cluster, node: str | None) -> str:
    if node is None:
        return next(iter(cluster.nodes))
    if node not in cluster.nodes:
        raise UsageError(f"there is no node {node} in {cluster.name}", hint=f"it has {', '.join(cluster.nodes)}")
    return node
