"""`railbed.train`: distributed training that survives failures."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial

from railbed.api.clusters import ClusterLike, cluster_of, cluster_words
from railbed.api.kinds import RESTARTABLE, RESUMABLE
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.stored import Run, folder_of
from railbed.api.stream import RecordStream
from railbed.api.train.earlier import earlier_run, own_cluster, require_common_node
from railbed.api.train.request import continuing, request_of, with_placement
from railbed.api.train.stages import train_on, training_files
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store import Store, summary_of
from railbed.store.cache import cache_folder
from railbed.train import recipes
from railbed.train.data.prepare import prepare
from railbed.train.run import TrainRequest
from railbed.watch.run import RunSeries

Settings = Mapping[str, object] | Sequence[str]
"""Keys of a recipe with their values, or `KEY=VALUE` as after --set."""


def train(
    cluster: ClusterLike = None,
    recipe: str = "tiny",
    *,
    settings: Settings = (),
    ranks: int | None = None,
    min_nodes: int = 1,
    transport: str = "auto",
    resume: Run | str | os.PathLike[str] | None = None,
    from_start: bool = False,
    check_first: bool = True,
    sample: float = 1.0,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Train on all nodes of a cluster: check it first, continue from the last state if ranks or nodes fail.

    Yields events, and the measurements of each step: `loss`, `step_seconds`, `tokens_per_second` and others, with
    `step` and `rank` as labels. The text is prepared before the function returns; that takes a while the first time.

    `recipe` is a recipe by name, or the path of a file; `settings` changes keys of it. There are `ranks` on each node:
    without it, one for each GPU. Training goes on while `min_nodes` are left. `transport` is what carries gradients.
    `resume` is a run to continue, on its own cluster unless another is given, with its own recipe; `from_start` begins
    it again. All devices are sampled every `sample` seconds, 0 for never.
    """
    reach, store = reach or Reach(), store or Store()
    series = RunSeries(sample)
    if reach.replay:
        raise UsageError("a recording cannot train", hint="leave out replay")
    if resume is None:
        site = cluster_of(cluster, reach, discovers=False)
        wanted = recipes.load(recipe, _words(settings))
        request = request_of(wanted, prepare(wanted, cache_folder("tokens")))
    else:
        folder = folder_of(resume, RESTARTABLE if from_start else RESUMABLE, store)
        summary = summary_of(folder)
        earlier = earlier_run(folder, summary, wanted=str(folder))
        site = own_cluster(earlier) if cluster is None else cluster_of(cluster, reach, discovers=False)
        require_common_node(earlier, site, site.name)
        prepared = prepare(earlier.recipe, cache_folder("tokens"))
        request = continuing(earlier, prepared, from_start=from_start)
    request = with_placement(request, site, ranks=ranks, minimum=min_nodes, transport=transport)
    options = [word for item in _words(settings) for word in ("--set", item)]
    words = ["train", *([recipe, *options] if resume is None else ["--resume", summary.id]), *cluster_words(cluster)]
    return train_stream(
        site, request, series=series, check_first=check_first, reach=reach, store=store, arguments=words
    )


def train_stream(
    site: Cluster,
    request: TrainRequest,
    *,
    series: RunSeries,
    check_first: bool,
    passed: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = warnings.warn,
    reach: Reach | None = None,
    store: Store | None = None,
    arguments: Sequence[str] = (),
) -> RecordStream:
    """Return the training of a request: `passed` is called once the cluster has passed its check."""

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return train_on(site, fleet, request=request, unchecked=not check_first, series=series, passed=passed)

    beside = partial(training_files, series=series, warn=warn)
    invocation = Invocation(verb="train", cluster=site, work=work, beside=beside)
    return RecordStream(invocation, reach or Reach(), store, arguments)


def _words(settings: Settings) -> list[str]:
    if isinstance(settings, Mapping):
        return [f"{key}={value}" for key, value in settings.items()]
    return list(settings)
