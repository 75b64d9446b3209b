"""Sample a cluster, with nothing else going on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.model.cluster import Cluster
from railbed.model.meters import Sample
from railbed.model.progress import progress
from railbed.model.record import Record


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
