"""The state of sampling itself, and the newest measures of a running training."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from railbed import __version__
from railbed.model.cluster import Cluster, DeviceKind
from railbed.web.metrics.latest import Latest
from railbed.web.metrics.names import METRICS, PREFIX
from railbed.web.metrics.training import TrainingValues

UP = f"{PREFIX}_up"
SAMPLE_AGE = f"{PREFIX}_sample_age_seconds"
GAPS = f"{PREFIX}_sampling_gaps"
STEP = f"{PREFIX}_training_step"
BUILD = f"{PREFIX}_build_info"


def sampled_devices(cluster: Cluster) -> dict[str, DeviceKind]:
    """Return the kind of every device that can be sampled."""
    nodes: dict[str, DeviceKind] = dict.fromkeys(cluster.nodes, "node")
    return nodes | {name: "switch" for name, switch in cluster.switches.items() if switch.host}


class Status(Collector):
    """Collects what is not a sample of a device."""

    def __init__(self, cluster: Cluster, latest: Latest, training: TrainingValues) -> None:
        self._kinds = sampled_devices(cluster)
        self._latest = latest
        self._training = training
        self.gaps = dict.fromkeys(self._kinds, 0)
        """How often each device fell silent."""

    def collect(self) -> Iterator[Family]:
        """Yield the metrics."""
        build = Family(BUILD, "The version of railbed that reports.", "gauge")
        build.add_sample(BUILD, {"version": __version__}, 1)
        yield build
        yield from self._devices()
        yield from self._measures()

    def _devices(self) -> Iterator[Family]:
        up = Family(UP, "Whether a device is being sampled.", "gauge")
        age = Family(SAMPLE_AGE, "Time since the newest sample of a device.", "gauge")
        gaps = Family(GAPS, "Times that the samples of a device stopped.", "counter")
        for device, kind in self._kinds.items():
            labels = {"device": device, "kind": kind}
            up.add_sample(UP, labels, int(self._latest.is_up(device)))
            gaps.add_sample(f"{GAPS}_total", labels, self.gaps[device])
            if (seconds := self._latest.age(device)) is not None:
                age.add_sample(SAMPLE_AGE, labels, round(seconds, 3))
        yield from (up, age, gaps)

    def _measures(self) -> Iterator[Family]:
        step = Family(STEP, "The newest step of a running training.", "gauge")
        if (number := self._training.step()) is not None:
            step.add_sample(STEP, {"run": self._training.run}, number)
        yield step
        for meter, values in self._training.values().items():
            metric = METRICS[meter]
            family = Family(metric.family, metric.help, metric.kind)
            for (node, rank), value in values.items():
                family.add_sample(metric.name, {"node": node, "rank": rank}, value)
            yield family
