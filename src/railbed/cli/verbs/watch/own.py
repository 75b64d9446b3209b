"""Samples the cluster into a run of its own, and shows it meanwhile."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path

from railbed.api.verbs.watch import watch
from railbed.cli.options import Options
from railbed.cli.run.perform import show
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.watch import WatchScreen
from railbed.cli.verbs.watch.page import PageRequest, listening, page_beside
from railbed.cli.verbs.watch.view import DRAW_SECONDS, ViewRequest
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.model.record import Record
from railbed.store.timeline import Timeline
from railbed.store.timeline.samples import Samples


def watch_cluster(cluster: Cluster, request: ViewRequest, *, timeout: float) -> int:
    """Sample a cluster until Ctrl-C, or for the requested time."""
    with listening(request.page) as page:
        return _sample_into_run(cluster, replace(request, page=page), timeout=timeout)


def _sample_into_run(cluster: Cluster, request: ViewRequest, *, timeout: float) -> int:
    interval = request.interval or 1.0
    screen = JsonScreen() if request.json else WatchScreen()
    options = Options(json=request.json, timeout=timeout)
    sampling = watch(cluster, interval=interval, seconds=request.seconds, reach=options)

    def work(fleet: Fleet) -> AsyncGenerator[Record, None]:
        folder = shown.run.folder
        view = Printer(screen, folder, interval) if isinstance(screen, JsonScreen) else screen
        return _shown(sampling.invocation.work(fleet), view, folder, request.page)

    shown = sampling.doing(work)
    return show(shown, screen)


async def _shown(
    records: AsyncGenerator[Record, None], view: Printer | WatchScreen, folder: Path, page: PageRequest | None
) -> AsyncGenerator[Record, None]:
    """Yield the records of sampling; the samples are read back from the run to show them."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(page_beside(folder, page))
        redrawing = asyncio.create_task(_repeat(view))
        stack.push_async_callback(_end, redrawing)
        await stack.enter_async_context(aclosing(records))
        async for record in await stack.enter_async_context(aclosing(while_shown(records, redrawing))):
            yield record
    if isinstance(view, Printer):
        await asyncio.to_thread(view.refresh, all_of_it=True)


async def while_shown(
    records: AsyncGenerator[Record, None], showing: asyncio.Task[None]
) -> AsyncGenerator[Record, None]:
    """Yield records; an error of the view, such as a pipe that nothing reads any more, is raised here."""
    while True:
        coming = asyncio.ensure_future(anext(records, None))
        try:
            await asyncio.wait({coming, showing}, return_when=asyncio.FIRST_COMPLETED)
            if showing.done():
                showing.result()
            record = await coming
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        if record is None:
            return
        yield record


class Printer:
    """Prints samples without storing them: they are in the run's series already."""

    def __init__(self, screen: JsonScreen, folder: Path, interval: float) -> None:
        self._screen = screen
        self._timeline = Timeline(folder)
        self._samples = Samples(self._timeline, interval)

    def refresh(self, *, all_of_it: bool = False) -> None:
        """Print the intervals that are complete."""
        self._timeline.refresh()
        for measurement in self._samples.complete(all_of_it=all_of_it):
            self._screen.show(measurement)


async def _repeat(view: Printer | WatchScreen) -> None:
    while True:
        await asyncio.sleep(DRAW_SECONDS)
        try:
            await asyncio.to_thread(view.refresh)
        except SystemExit:  # raised by rich if nothing reads the output
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
