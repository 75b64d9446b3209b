"""Sampling for tests, in this process, with its events and samples as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.model.cluster import Cluster
from railbed.model.meters import Sample, SeriesKey
from railbed.model.record import Event
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector

SECONDS = 120.0
"""Far more than anything takes: what is not there by then never comes."""
E = TypeVar("E", bound=Event)


class Sampled:
    """What a sampling has yielded so far."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        self.cluster = cluster
        self.fleet = fleet
        self.events: list[Event] = []
        self.samples: list[Sample] = []
        self._read = 0
        self._more = asyncio.Condition()

    def take(self, taken: Sample) -> None:
        self.samples.append(taken)

    async def run(self, **options: Any) -> None:
        """Sample until this is cancelled."""
        async with aclosing(sample(self.cluster, self.fleet, self.take, **options)) as events:
            async for event in events:
                async with self._more:
                    self.events.append(event)
                    self._more.notify_all()

    async def event(self, kind: type[E], device: str) -> E:
        """Wait for an event that has not been returned yet; skip those before it about the same device."""
        async with asyncio.timeout(SECONDS), self._more:
            while True:
                for place, event in enumerate(self.events):
                    if isinstance(event, kind) and event.subject == device:
                        self.events[: place + 1] = [other for other in self.events[:place] if other.subject != device]
                        return event
                await self._more.wait()

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(SECONDS):
            while not met():
                await asyncio.sleep(0.05)

    def values(self, series: SeriesKey) -> list[int]:
        """Return the values of a series so far."""
        rows = [taken for taken in self.samples if taken.device == series.device and series in taken.layout]
        return [row.values[row.layout.index(series)] for row in rows]

    def meters(self, device: str) -> set[str]:
        """Return the meters of a device."""
        return {series.meter for taken in self.samples if taken.device == device for series in taken.layout}


@asynccontextmanager
async def sampling(cluster: Cluster, **options: Any) -> AsyncIterator[Sampled]:
    """Sample a cluster in this process."""
    async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
        sampled = Sampled(cluster, fleet)
        work = asyncio.create_task(sampled.run(**options))
        try:
            yield sampled
            assert not work.done(), work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
