"""The exporter as a verb: samples a cluster and serves /metrics until it is closed. It stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Event
from railbed.web.metrics.app import metrics_app
from railbed.web.metrics.exporter import Exporter
from railbed.web.metrics.training import follow_trainings
from railbed.web.serve import serving


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """Where to serve the metrics of a cluster, and how often to sample it."""

    address: str
    port: int
    token: str | None
    interval: float
    switch_interval: float


async def export(cluster: Cluster, fleet: Fleet, request: ExportRequest) -> AsyncGenerator[Event, None]:
    """Sample a cluster and serve its newest values; yield where, and every event of sampling."""
    exporter = Exporter(cluster, interval=request.interval, switch_interval=request.switch_interval)
    app, ending = metrics_app(exporter), asyncio.Event()
    async with (
        serving(app, ending, address=request.address, port=request.port, token=request.token) as served,
        _beside(exporter, cluster.name),
        aclosing(
            sample(
                cluster,
                fleet,
                exporter.take,
                interval=request.interval,
                switch_interval=request.switch_interval,
            )
        ) as stream,
    ):
        # Without the query, which has the token: this line ends up in the journal.
        yield events.Notice(message=f"metrics are served at {served.url.partition('?')[0]}metrics")
        async for event in stream:
            if isinstance(event, events.SamplingGap):
                exporter.count_gap(event.subject)
            yield event


@asynccontextmanager
async def _beside(exporter: Exporter, cluster: str) -> AsyncIterator[None]:
    """Follow trainings of this folder meanwhile."""
    task = asyncio.create_task(follow_trainings(exporter.training, cluster))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
