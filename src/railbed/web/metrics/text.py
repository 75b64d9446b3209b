"""The text that Prometheus scrapes.

prometheus_client writes names, help, labels and escapes: once, into a template, since it takes 67 ms of processor time
for 4,800 series, during which nothing else would be sampled. A scrape only fills in the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from railbed.model.meters import MISSING, SeriesKey
from railbed.web.metrics.latest import DeviceValues
from railbed.web.metrics.names import METRICS, MetricLabels


class MetricLine(NamedTuple):
    """A line of the text, and where its value comes from."""

    start: str
    """Everything before the value."""
    device: str
    position: int
    divisor: float


class MetricFamily(NamedTuple):
    """The lines of one metric."""

    head: str
    lines: tuple[MetricLine, ...]


class MetricsText:
    """Writes the values of devices; the template is made again when the series of a device change."""

    def __init__(self, labels: MetricLabels) -> None:
        self._labels = labels
        self._layouts: Mapping[str, tuple[SeriesKey, ...]] = {}
        self._sections: tuple[MetricFamily, ...] = ()

    def write(self, devices: Mapping[str, DeviceValues]) -> str:
        """Return the text; a value that a device did not report has no line."""
        if not self._fits(devices):
            self._layouts = {name: values.layout for name, values in devices.items()}
            self._sections = tuple(_sections(self._layouts, self._labels))
        values = {name: _totals(device) for name, device in devices.items()}
        parts: list[str] = []
        for head, lines in self._sections:
            texts = [
                f"{start}{value}\n" if divisor == 1.0 else f"{start}{value / divisor!r}\n"
                for start, device, position, divisor in lines
                if (value := values[device][position]) != MISSING
            ]
            if texts:
                parts.append(head)
                parts += texts
        return "".join(parts)

    def _fits(self, devices: Mapping[str, DeviceValues]) -> bool:
        return self._layouts.keys() == devices.keys() and all(
            self._layouts[name] is values.layout for name, values in devices.items()
        )


def _totals(device: DeviceValues) -> Sequence[int]:
    """Return the values of a device, with what wraps have taken from its counters."""
    if not device.wrapped:
        return device.values
    values = list(device.values)
    for index, lost in device.wrapped.items():
        if values[index] != MISSING:
            values[index] += lost
    return values


class _Template(Collector):
    """Every series with its number as the value."""

    def __init__(self, numbered: list[tuple[SeriesKey, Mapping[str, str]]]) -> None:
        self._numbered = numbered

    def collect(self) -> Iterator[Family]:
        """Yield every metric, in the order of the meters."""
        order = {name: position for position, name in enumerate(METRICS)}
        rows = sorted(enumerate(self._numbered), key=lambda row: (order[row[1][0].meter], row[0]))
        for meter, group in groupby(rows, key=lambda row: row[1][0].meter):
            metric = METRICS[meter]
            family = Family(metric.family, metric.help, metric.kind)
            for number, (_, labels) in group:
                family.add_sample(metric.name, dict(labels), number)
            yield family


def _sections(layouts: Mapping[str, tuple[SeriesKey, ...]], labels: MetricLabels) -> Iterator[MetricFamily]:
    numbered = [(series, labels.of(series)) for layout in layouts.values() for series in layout]
    places = [(device, index) for device, layout in layouts.items() for index in range(len(layout))]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Template(numbered))
    head: list[str] = []
    lines: list[MetricLine] = []
    for text in generate_latest(registry).decode().split("\n")[:-1]:
        if text.startswith("#"):
            if lines:
                yield MetricFamily("".join(head), tuple(lines))
                head, lines = [], []
            head.append(f"{text}\n")
        else:
            start, _, value = text.rpartition(" ")
            number = int(float(value))
            lines.append(MetricLine(f"{start} ", *places[number], 1 / METRICS[numbered[number][0].meter].factor))
    if lines:
        yield MetricFamily("".join(head), tuple(lines))
