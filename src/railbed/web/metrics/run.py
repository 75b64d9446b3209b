"""The exporter: samples a cluster and serves the text of /metrics until it is closed. It stores nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.meters import Sample
from railbed.model.record import Event
from railbed.web.metrics.latest import Latest
from railbed.web.metrics.names import MetricLabels
from railbed.web.metrics.status import Status, TrainingValues, follow_trainings, sampled_devices
from railbed.web.metrics.text import MetricsText
from railbed.web.serve import serving

PATIENCE = 3
"""A device is down when this many samples in a row are missing …"""
LEAST_PATIENCE_SECONDS = 5.0
"""… but not sooner than this."""


class Exporter:
    """The metrics of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        interval: float,
        switch_interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        intervals = {"node": interval, "switch": switch_interval}
        limits = {
            name: max(LEAST_PATIENCE_SECONDS, PATIENCE * intervals[kind])
            for name, kind in sampled_devices(cluster).items()
        }
        self._latest = Latest(limits, clock)
        self._text = MetricsText(MetricLabels(cluster))
        self.training = TrainingValues()
        self._status = Status(cluster, self._latest, self.training)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._status)

    def take(self, sample: Sample) -> None:
        """Use a sample as the newest of its device."""
        self._latest.take(sample)

    def count_gap(self, device: str) -> None:
        """Count that the samples of a device stopped."""
        if device in self._status.gaps:
            self._status.gaps[device] += 1

    def text(self) -> str:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self._registry).decode() + self._text.write(self._latest.current())


def metrics_app(exporter: Exporter) -> Starlette:
    """Return the application that answers Prometheus."""

    async def metrics(_request: Request) -> Response:
        return Response(exporter.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def index(_request: Request) -> Response:
        return PlainTextResponse("Metrics of railbed for Prometheus: /metrics\n")

    async def missing(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse("There is nothing at this address: see /metrics.\n", 404)

    return Starlette(routes=[Route("/", index), Route("/metrics", metrics)], exception_handlers={404: missing})


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
