"""Measure what the exporter costs with the series of sixteen nodes, against prometheus_client writing all of them anew.

    python -m tools.bench_metrics [--nodes 16] [--series 300] [--repeats 50]

Times are processor time of this process, so other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, ip_network
from statistics import median

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from railbed.model.cluster import Cluster, Node, Port, Rail
from railbed.model.meters import METERS, Sample, SeriesKey
from railbed.web.metrics.names import METRICS, MetricLabels
from railbed.web.metrics.run import Exporter

PORTS = 8
PRIORITIES = 8


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--series", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    cluster = _cluster(arguments.nodes)
    layouts = [tuple(_series(name))[: arguments.series] for name in cluster.nodes]
    samples = [
        Sample(layout[0].device, 0.0, layout, [10**12 + place for place in range(len(layout))]) for layout in layouts
    ]
    exporter = Exporter(cluster, interval=1.0, switch_interval=5.0)

    def take() -> None:
        for sample in samples:
            exporter.take(sample)

    take()
    first = _milliseconds(exporter.text, 1)
    text = exporter.text()
    peer = CollectorRegistry(auto_describe=False)
    peer.register(Plain(samples, MetricLabels(cluster)))
    print(f"{arguments.nodes} nodes × {arguments.series} series, a scrape is {len(text) / 1024:.0f} KiB")
    print(f"take the samples of all nodes     {_milliseconds(take, arguments.repeats):8.2f} ms")
    print(f"first scrape, and after a change  {first:8.2f} ms")
    print(f"scrape                            {_milliseconds(exporter.text, arguments.repeats):8.2f} ms")
    print(f"prometheus_client alone           {_milliseconds(lambda: generate_latest(peer), 10):8.2f} ms")


class Plain(Collector):
    """The same values in the usual way: new metrics for every scrape."""

    def __init__(self, samples: list[Sample], labels: MetricLabels) -> None:
        self._rows: dict[str, list[tuple[dict[str, str], int]]] = {}
        for sample in samples:
            for series, value in zip(sample.layout, sample.values, strict=True):
                self._rows.setdefault(series.meter, []).append((dict(labels.of(series)), value))

    def collect(self) -> Iterator[Family]:
        """Yield the metrics."""
        for meter, rows in self._rows.items():
            metric = METRICS[meter]
            family = Family(metric.family, metric.help, metric.kind)
            for labels, value in rows:
                family.add_sample(metric.name, labels, value * metric.factor)
            yield family


def _cluster(nodes: int) -> Cluster:
    return Cluster(
        name="bench",
        rails={f"rail{port}": Rail(subnet=ip_network(f"10.{port}.0.0/16")) for port in range(PORTS)},
        nodes={
            f"node{number}": Node(
                host=f"node{number}",
                ports=tuple(
                    Port(netdev=f"eth{port}", rail=f"rail{port}", address=IPv4Address(f"10.{port}.0.{number + 1}"))
                    for port in range(PORTS)
                ),
            )
            for number in range(nodes)
        },
    )


def _series(node: str) -> Iterator[SeriesKey]:
    for port in range(PORTS):
        for meter in METERS.values():
            parts = [str(part) for part in range(PRIORITIES)] if meter.part == "priority" else [""]
            if meter.per_port and meter.part in ("", "priority"):
                yield from (SeriesKey(node, meter.name, f"eth{port}", part) for part in parts)


def _milliseconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median processor time of some work."""
    times = []
    for _ in range(repeats):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return 1000 * median(times)


if __name__ == "__main__":
    main()
