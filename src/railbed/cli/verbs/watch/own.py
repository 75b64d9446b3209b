"""Samples the cluster into a run of its own, and shows it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path

from railbed.cli.options import Options
from railbed.cli.perform import perform
from railbed.cli.screens.base import Screen
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.watch import WatchScreen
from railbed.cli.series import RunSeries
from railbed.cli.verbs.watch.page import page_beside
from railbed.cli.verbs.watch.records import Samples
from railbed.cli.verbs.watch.view import DRAW_SECONDS, ViewRequest
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store.timeline import Timeline
from railbed.watch.run import watch


def watch_cluster(cluster: Cluster, request: ViewRequest, *, timeout: float) -> int:
    """Sample a cluster until Ctrl-C, or for the requested time."""
    series = RunSeries(request.interval or 1.0)
    screen: Screen = JsonScreen() if request.json else WatchScreen()
    folders: list[Path] = []

    @contextmanager
    def beside(run: Path) -> Iterator[Callable[[Record], None]]:
        folders.append(run)
        with series.stored_in(run):
            yield _nothing

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        return _shown(cluster, fleet, series, screen, request, folders[0])

    options = Options(json=request.json, record=None, replay=None, timeout=timeout)
    return perform("watch", cluster, options, work, screen=screen, beside=beside)


async def _shown(
    cluster: Cluster, fleet: Fleet, series: RunSeries, screen: Screen, request: ViewRequest, folder: Path
) -> AsyncGenerator[Record, None]:
    """Yield the records of sampling; the samples are read back from the run to show them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(page_beside(folder, request.page))
        redrawing = asyncio.create_task(_redraw(screen, folder, series.interval))
        stack.push_async_callback(_end, redrawing)
        records = watch(cluster, fleet, series.take, interval=series.interval, seconds=request.seconds)
        async for record in await stack.enter_async_context(aclosing(records)):
            yield record


async def _redraw(screen: Screen, folder: Path, interval: float) -> None:
    refresh = (
        screen.refresh
        if isinstance(screen, WatchScreen)
        else partial(_print_samples, screen, _samples(folder, interval))
    )
    while True:
        await asyncio.sleep(DRAW_SECONDS)
        await asyncio.to_thread(refresh)


def _samples(folder: Path, interval: float) -> tuple[Timeline, Samples]:
    timeline = Timeline(folder)
    return timeline, Samples(timeline, interval)


def _print_samples(screen: Screen, source: tuple[Timeline, Samples]) -> None:
    """Print samples without storing them: they are in the run's series already."""
    timeline, samples = source
    timeline.refresh()
    for measurement in samples.complete():
        screen.show(measurement)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _nothing(_record: Record) -> None:
    pass
