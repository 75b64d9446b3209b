"""Shows a run that another process writes, or that has ended: in the terminal, as plain lines, as JSON, on a page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from railbed.api.exits import INTERRUPTED, OK
from railbed.cli.run.signals import run_until_ended
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.watch import WatchScreen
from railbed.cli.verbs.watch.page import PageRequest, page_beside
from railbed.errors import UsageError
from railbed.model.record import Record
from railbed.store import follow, read_run_in
from railbed.store.timeline import Timeline
from railbed.store.timeline.samples import Samples

ENDED_INTERVAL = 60.0
"""Of measurements, for a run that has ended; a run in progress has one every second."""
DRAW_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequest:
    """How to show a run."""

    page: PageRequest | None = None
    json: bool = False
    interval: float | None = None
    seconds: float | None = None
    """Stop after this long."""


def view_run(folder: Path, request: ViewRequest) -> int:
    """Show a run until it ends; Ctrl-C leaves the run alone."""
    timeline = Timeline(folder)
    if not timeline.series() and not timeline.live:
        raise UsageError(f"{folder.name} has no samples and no training steps to show", hint=_hint(timeline))
    try:
        run_until_ended(_limited(folder, timeline, request))
    except KeyboardInterrupt:
        summary = read_run_in(folder)
        if summary and summary.status == "running":
            sys.stderr.write(f"{folder.name} is still running: `railbed watch {folder.name}` shows it again\n")
        elif request.page:
            return OK  # the usual end of a server
        raise SystemExit(INTERRUPTED) from None
    return OK


def _hint(timeline: Timeline) -> str:
    if timeline.summary.verb == "train":
        return "it was started with --sample 0, or ended before its first step"
    return "`railbed train` and `railbed watch` make runs with samples; `railbed runs` lists all"


async def _limited(folder: Path, timeline: Timeline, request: ViewRequest) -> None:
    async with page_beside(folder, request.page):
        try:
            async with asyncio.timeout(request.seconds):
                if request.json:
                    await _as_json(folder, timeline, request.interval)
                elif request.page:
                    await asyncio.Event().wait()
                else:
                    await _in_terminal(folder, timeline)
        except TimeoutError:
            return
        if request.page:
            await asyncio.Event().wait()  # the page stays until Ctrl-C, also when the records have ended


async def _in_terminal(folder: Path, timeline: Timeline) -> None:
    with WatchScreen(timeline) as screen:
        screen.begin(folder)
        try:
            while timeline.live:
                await asyncio.to_thread(screen.refresh)
                await asyncio.sleep(DRAW_SECONDS)
            await asyncio.to_thread(timeline.refresh)
        finally:
            screen.finish(folder)


async def _as_json(folder: Path, timeline: Timeline, interval: float | None) -> None:
    screen = JsonScreen()
    samples = Samples(timeline, interval or (1.0 if timeline.live else ENDED_INTERVAL))
    async with aclosing(follow(folder)) as records:
        follower = asyncio.create_task(_show_all(records, screen))
        try:
            while timeline.live and not follower.done():
                for measurement in await asyncio.to_thread(lambda: list(samples.complete())):
                    screen.show(measurement)
                await asyncio.sleep(min(DRAW_SECONDS, interval or DRAW_SECONDS))
                await asyncio.to_thread(timeline.refresh)
            await follower
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
    timeline.refresh()
    for measurement in samples.complete(all_of_it=True):
        screen.show(measurement)


async def _show_all(records: AsyncGenerator[Record, None], screen: JsonScreen) -> None:
    async for record in records:
        screen.show(record)
