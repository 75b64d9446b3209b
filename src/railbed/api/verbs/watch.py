"""`railbed.watch`: samples of all devices, as a run of their own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from railbed.api.clusters import ClusterLike, cluster_of, cluster_words
from railbed.api.reach import Reach
from railbed.api.running import Invocation
from railbed.api.stream import RecordStream
from railbed.fleet import Fleet
from railbed.model.record import Record
from railbed.store import Store
from railbed.watch.lost import LostNodes
from railbed.watch.run import RunSeries
from railbed.watch.run import watch as watch_devices


def watch(
    cluster: ClusterLike = None,
    *,
    interval: float = 1.0,
    seconds: float | None = None,
    reach: Reach | None = None,
    store: Store | None = None,
) -> RecordStream:
    """Sample counters, queues and GPUs of all devices every `interval` seconds, for `seconds` or until it is left.

    Yields events: what is sampled, and devices that cannot be. The samples are stored in the run as time series:
    `Run.samples` returns them as measurements, `diagnose` judges them, also while they are written.
    """
    reach, store = reach or Reach(), store or Store()
    site = cluster_of(cluster, reach, discovers=False)
    series = RunSeries(interval)

    @contextmanager
    def beside(run: Path) -> Iterator[Callable[[Record], None]]:
        with series.store_in(run):
            yield _nothing

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        watching = watch_devices(site, fleet, series.take, interval=interval, seconds=seconds)
        return LostNodes(site, fleet).beside(watching)

    words = ["watch", *(["--for", f"{seconds:g}"] if seconds is not None else []), *cluster_words(cluster)]
    return RecordStream(Invocation(verb="watch", cluster=site, work=work, beside=beside), reach, store, words)


def _nothing(_record: Record) -> None:
    pass
