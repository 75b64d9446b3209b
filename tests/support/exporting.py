"""An exporter of a cluster in which everything goes wrong, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from railbed.model.cluster import Cluster, Switch
from railbed.model.meters import METERS, Sample, SeriesKey
from railbed.model.record import Measurement
from railbed.web.metrics.run import Exporter, metrics_app
from railbed.web.serve import serving
from tests.support.monitored import layouts, monitored_cluster

SILENT = ("node3", "spare")
PER_SECOND = {
    "pause_rx_us": 900_000,
    "pause_tx_us": 900_000,
    "net_tx_bytes": 100_000_000_000,
    "rdma_tx_bytes": 1_000_000,
    "rdma_cnp_handled": 0,
}
"""How fast counters grow: a rate over a minute is known only after a minute, unless they grow far too fast."""
OFTEN = 20_000
"""How fast all others grow."""
GAUGE = 5
IDLE_SECONDS = (0.0, 0.5, 0.5, 0.5)
"""Of the ranks of a training: the first is slow."""


def failing_cluster() -> Cluster:
    """Return a cluster with a node and a switch that do not answer."""
    cluster = monitored_cluster(3)
    return cluster.model_copy(update={"switches": {**cluster.switches, "spare": Switch(host="spare")}})


@contextmanager
def exporting(cluster: Cluster, token: str) -> Iterator[int]:
    """Serve the metrics of a cluster until the context ends; yield the port."""
    ready, ending = threading.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        exporter = Exporter(cluster, interval=1.0, switch_interval=5.0)
        _train(exporter)
        async with serving(metrics_app(exporter), asyncio.Event(), token=token) as served:
            ports.append(served.port)
            started = time.monotonic()
            answering = [layout for device, layout in layouts(cluster).items() if device not in SILENT]
            while not ending.is_set():
                for layout in answering:
                    exporter.take(_sample(layout, time.monotonic() - started))
                ready.set()
                await asyncio.sleep(0.25)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        yield ports[0]
    finally:
        ending.set()
        thread.join(60)


def _sample(layout: tuple[SeriesKey, ...], seconds: float) -> Sample:
    return Sample(layout[0].device, seconds, layout, [_value(series, seconds) for series in layout])


def _value(series: SeriesKey, seconds: float) -> int:
    if METERS[series.meter].kind == "gauge":
        return GAUGE
    return int(PER_SECOND.get(series.meter, OFTEN) * seconds)


def _train(exporter: Exporter) -> None:
    exporter.training.begin("20260101-000000-train")
    for rank, idle in enumerate(IDLE_SECONDS):
        values = {"idle_seconds": idle, "step_seconds": 1.0, "allreduce_exposed_seconds": idle, "data_seconds": 0.1}
        if rank == 0:
            values |= {"loss": 2.5, "tokens_per_second": 1e5}
        for name, value in values.items():
            labels: dict[str, str | int] = {"step": 812, "rank": rank, "node": f"node{rank % 3 + 1}"}
            unit = METERS[name].unit
            exporter.training.take(Measurement(name=name, value=value, unit=unit, labels=labels))
