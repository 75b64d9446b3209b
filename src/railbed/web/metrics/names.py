"""The metric of each meter: its name, type, help, unit and labels follow from the meter by one rule.

Prometheus expects base units, the unit at the end of the name, and `_total` after a counter. Things that are counted
(packets, frames, changes) have no unit of their own.

Labels are names from the cluster file, so that a port is known by its node and rail everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from railbed.model.cluster import Cluster
from railbed.model.meters import METERS, Meter, SeriesKey

PREFIX = "railbed"
BASE_UNITS = {
    "byte": ("bytes", 1.0),
    "us": ("seconds", 1e-6),
    "s": ("seconds", 1.0),
    "W": ("watts", 1.0),
    "°C": ("celsius", 1.0),
    "MHz": ("hertz", 1e6),
}
"""By the unit of a meter: the base unit, and how many of it one is."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How a meter appears in Prometheus."""

    family: str
    """The name without `_total`."""
    kind: Literal["counter", "gauge"]
    help: str
    factor: float
    """What a stored value is multiplied by; exactly 1 keeps whole numbers whole."""
    part: str
    """The label for `SeriesKey.part`."""

    @property
    def name(self) -> str:
        """The name of its samples, as used in queries."""
        return f"{self.family}_total" if self.kind == "counter" else self.family


def metric_of(meter: Meter) -> Metric:
    """Return the metric of a meter."""
    unit, factor = _base_unit(meter)
    stem = meter.name.removesuffix(f"_{meter.unit}").removesuffix(f"_{unit}")
    words = (PREFIX, "training" if meter.of == "rank" else "", stem, unit)
    return Metric(
        family="_".join(filter(None, words)),
        kind="counter" if meter.kind == "counter" else "gauge",
        help=f"{meter.meaning[0].upper()}{meter.meaning[1:]}.",
        factor=meter.scale * factor,
        part=meter.part,
    )


def _base_unit(meter: Meter) -> tuple[str, float]:
    if meter.unit == "1" and meter.kind == "gauge":
        return "ratio", 1.0
    return BASE_UNITS.get(meter.unit, ("", 1.0))


METRICS: Mapping[str, Metric] = {name: metric_of(meter) for name, meter in METERS.items()}
"""Every metric by the name of its meter."""


class MetricLabels:
    """Labels for the series of a cluster. What a series does not have is absent, not empty."""

    def __init__(self, cluster: Cluster) -> None:
        self._switches = frozenset(cluster.switches)
        self._rails = {(node, port.netdev): port.rail for node, port in cluster.ports()}
        self._ends = {
            (name, port.name): (port.node, port.netdev)
            for name, switch in cluster.switches.items()
            for port in switch.ports
        }

    def of(self, series: SeriesKey) -> Mapping[str, str]:
        """Return the labels of a series; a switch port has those of the node that is cabled to it."""
        part = METRICS[series.meter].part
        labels = {"port": series.port, part: series.part}
        if series.device in self._switches:
            node, netdev = self._ends.get((series.device, series.port), ("", ""))
            labels |= {"switch": series.device, "node": node, "rail": self._rails.get((node, netdev), "")}
        else:
            labels |= {"node": series.device, "rail": self._rails.get((series.device, series.port), "")}
        return {name: as_unicode(value) for name, value in labels.items() if name and value}


def as_unicode(text: str) -> str:
    """Replace what UTF-8 cannot represent: the name of an interface may be any bytes."""
    return text.encode("utf-8", "replace").decode()
