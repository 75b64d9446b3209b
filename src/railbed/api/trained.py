"""Which trained model a verb works on: that of a run, on its nodes, or that of a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from railbed.api.clusters import ClusterLike, cluster_of
from railbed.api.kinds import TRAINING, WITH_WEIGHTS
from railbed.api.reach import Reach
from railbed.api.site import built_in_local
from railbed.api.stored import Run
from railbed.errors import UsageError
from railbed.model.cluster import Cluster
from railbed.model.text import expand_home, is_file, is_folder
from railbed.store import NEWEST, Store, find_run, summary_of
from railbed.store.find import cluster_to_act_on, jobs_in_progress, read_start
from railbed.store.run import ABOUT
from railbed.store.submitted import job_of
from railbed.train.base.files import CONFIG
from railbed.train.results.adapter import is_adapter
from railbed.train.results.sources import MODEL

ModelSource: TypeAlias = Run | str | os.PathLike[str]
"""A training run, its name, the path of its folder or `newest`, or the path of the folder of a model."""


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


def trained_model(source: ModelSource, cluster: ClusterLike, node: str | None, store: Store) -> TrainedModel:
    """Return the model that a caller names: of a run, or of a folder, on a node of the cluster if there is one."""
    if isinstance(source, Run):
        return _of_run(source.folder, cluster, node)
    word = os.fspath(source)
    if word == NEWEST:
        return _of_run(_training_folder(word, store), cluster, node)
    path = expand_home(word)
    is_run = is_file(path / ABOUT)
    if (cluster is not None or node) and "/" in word and not is_run:
        site = cluster_of(cluster, Reach(), discovers=False)
        return TrainedModel(cluster=site, folder=word, node=_node(site, node))
    if is_file(path / CONFIG) or is_adapter(path):
        site = built_in_local()
        return TrainedModel(cluster=site, folder=str(path.resolve()), node=_node(site, node))
    if is_folder(path) and not is_run:
        raise UsageError(f"{path} is neither a run nor the folder of a model: it has no {CONFIG}")
    if "/" in word and not is_run:
        raise UsageError(f"there is no folder {path}", hint="name a run, or the folder of a model")
    return _of_run(_training_folder(word, store), cluster, node)


def model_words(source: ModelSource) -> str:
    """Return the argument that names the same model on the command line."""
    return source.id if isinstance(source, Run) else os.fspath(source)


def _training_folder(word: str, store: Store) -> Path:
    """Return the folder of a training run; one in progress may have the name that it has on its nodes."""
    name = jobs_in_progress(store.folder).get(word, word)
    try:
        return find_run(name, WITH_WEIGHTS, store.folder)
    except UsageError:
        if name != NEWEST:
            raise
        return find_run(name, TRAINING, store.folder)


def _of_run(folder: Path, cluster: ClusterLike, node: str | None) -> TrainedModel:
    if summary_of(folder).verb != "train":
        raise UsageError(f"{folder.name} is not a training run", hint="`railbed runs` lists them")
    started = read_start(folder)
    if started.recipe.get("traffic"):
        raise UsageError(f"{folder.name} is a network load: it trains no model and has no weights")
    own = folder / MODEL
    if job_of(folder) and own.is_dir():
        site = built_in_local()
        stored = str(own.resolve())
        return TrainedModel(cluster=site, folder=stored, node=_node(site, None), title=folder.name, is_stored=True)
    site = cluster_to_act_on(folder) if cluster is None else cluster_of(cluster, Reach(), discovers=False)
    return TrainedModel(cluster=site, run=started.run, node=_node(site, node) if node else "", title=folder.name)


def _node(cluster: Cluster, node: str | None) -> str:
    if node is None:
        return next(iter(cluster.nodes))
    if node not in cluster.nodes:
        raise UsageError(f"there is no node {node} in {cluster.name}", hint=f"it has {', '.join(cluster.nodes)}")
    return node
