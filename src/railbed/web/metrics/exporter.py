"""The exporter: takes samples and writes the text of /metrics."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from railbed.model.cluster import Cluster
from railbed.model.meters import Sample
from railbed.web.metrics.labels import Labels
from railbed.web.metrics.latest import Latest
from railbed.web.metrics.status import Status, sampled_devices
from railbed.web.metrics.text import Text
from railbed.web.metrics.training import TrainingValues

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
        self._text = Text(Labels(cluster))
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
