"""Samples a cluster into the series of a run, with nothing else going on or beside a verb.

A verb and something endless alongside it are one stream of records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.fleet.sample import SHORTEST_SECONDS, sample
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.events.general import progress
from railbed.model.meters import Sample
from railbed.model.record import Measurement, Record

if TYPE_CHECKING:
    from railbed.store.series import SeriesWriter


async def watch(
    cluster: Cluster,
    fleet: Fleet,
    take: Callable[[Sample], None],
    *,
    interval: float = 1.0,
    switch_interval: float = 5.0,
    seconds: float | None = None,
) -> AsyncGenerator[Record, None]:
    """Sample all devices, for so many seconds or until this is closed; `take` gets the samples."""
    yield progress("sampling")
    deadline = asyncio.get_running_loop().time() + seconds if seconds is not None else None
    async with aclosing(sample(cluster, fleet, take, interval=interval, switch_interval=switch_interval)) as events:
        while True:
            limit = asyncio.timeout_at(deadline)
            try:
                async with limit:
                    event = await anext(events)
            except TimeoutError:
                if limit.expired():
                    return
                raise
            yield event


class RunSeries:
    """Takes samples once the run has a folder."""

    def __init__(self, interval: float) -> None:
        """Refuse an interval that sampling cannot hold; 0 means that nothing is sampled."""
        if 0 < interval < SHORTEST_SECONDS:
            raise UsageError(
                f"samples are taken at most every {SHORTEST_SECONDS:g} s, not every {interval:g} s",
                hint=f"use {SHORTEST_SECONDS:g} or more, or 0 for no samples",
            )
        self.interval = interval
        self.folder: Path | None = None
        """Of the run, while there is one."""
        self._writer: SeriesWriter | None = None

    @contextmanager
    def store_in(self, run: Path) -> Iterator[None]:
        """Store samples in the folder of a run; at the end, complete what is stored."""
        self.folder = run
        try:
            yield
        finally:
            self.folder = None
            self._close()

    def take(self, sample: Sample) -> None:
        """Store a sample. Raises UsageError if that is not possible, such as on a full disk."""
        if self.folder is None:
            return
        if self._writer is None:
            from railbed.store.series import SeriesWriter  # numpy is slow to load, and many runs have no samples

            self._writer = SeriesWriter(self.folder)
        self._writer.append(sample)

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer:
            writer.close()


Turn = tuple[Record, asyncio.Event]
"""A record, and whether it has been stored and shown."""


async def alongside(
    verb: AsyncGenerator[Record, None], other: AsyncGenerator[Record, None], *, what: str = "sampling"
) -> AsyncGenerator[Record, None]:
    """Yield the records of both until the verb ends, normally or not; a fault in the other does not end the verb.

    `what` names the other in a message about such a fault.

    Each runs in a task of its own, and continues only when its record has been stored and shown: people see what begins
    before it takes long. Measurements are not waited for: dozens come at every step, and each wait takes a turn of the
    event loop.
    """
    turns: asyncio.Queue[Turn | None] = asyncio.Queue()
    tasks = [asyncio.create_task(_relay(records, turns)) for records in (verb, other)]
    tasks[0].add_done_callback(lambda _: turns.put_nowait(None))
    tasks[1].add_done_callback(lambda task: _report_fault(task, turns, what))
    try:
        while turn := await turns.get():
            record, done = turn
            yield record
            done.set()
        tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(records: AsyncGenerator[Record, None], turns: asyncio.Queue[Turn | None]) -> None:
    async with aclosing(records):
        async for record in records:
            done = asyncio.Event()
            turns.put_nowait((record, done))
            if not isinstance(record, Measurement):
                await done.wait()


def _report_fault(task: asyncio.Task[None], turns: asyncio.Queue[Turn | None], what: str) -> None:
    if not task.cancelled() and (error := task.exception()):
        message = f"{what} ended because of a fault in railbed: {type(error).__name__}: {error}"
        turns.put_nowait((events.Notice(message=message), asyncio.Event()))
