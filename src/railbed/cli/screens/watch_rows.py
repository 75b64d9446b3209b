"""What the terminal view of a run shows: one row per node and per busy queue, from its timeline."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from railbed.model.meters import METERS, SeriesKey
from railbed.store.timeline import Timeline

BUCKETS = 240
TREND = 12
RECENT_SECONDS = 5.0
"""What a run in progress is doing now is the mean of its last seconds."""
TREND_SECONDS = 60.0
US = 1e-6
RECEIVED, SENT = ("net_rx_bytes", "rdma_rx_bytes"), ("net_tx_bytes", "rdma_tx_bytes")
NOTIFIED = ("rdma_cnp_sent", "rdma_cnp_handled", "rdma_ecn_marked_packets", "ip_ce_packets")
STOPPED = ("pause_rx_us", "pause_tx_us")
DROPPED = ("net_rx_drops", "net_tx_drops", "qdisc_drops", "rdma_out_of_buffer")
FAULTY = tuple(name for name, meter in METERS.items() if meter.error) + DROPPED
QUEUED = ("queue_depth_bytes", "queue_ecn_marked_packets", "queue_drop_packets")
SWITCH = frozenset(name for name in METERS if name.startswith(("switch_", "queue_", "ingress_", "watchdog_")))
MOST_QUEUES = 5


@dataclass(slots=True)
class NodeRow:
    """A node: None where nothing is measured. Rates are bytes per second, `pause` a share, `cpu` busy processors."""

    node: str
    step_seconds: float | None = None
    wait_seconds: float | None = None
    received: float | None = None
    sent: float | None = None
    pause: float | None = None
    notified: float | None = None
    faulty: float | None = None
    cpu: float | None = None
    gpu: float | None = None
    trend: list[float] = field(default_factory=list)
    """Step time, or what the node sent if it does not train; NaN where there is none."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue of a switch port: bytes in it, and packets per second."""

    switch: str
    port: str
    queue: str
    depth: float | None
    marked: float | None
    dropped: float | None


class Window:
    """Means of series between two times."""

    def __init__(self, timeline: Timeline, start: float, end: float) -> None:
        self._timeline = timeline
        self._start, self._end = start, end
        self._series: dict[str, dict[str, list[SeriesKey]]] = defaultdict(lambda: defaultdict(list))
        for series in timeline.series():
            self._series[series.device][series.meter].append(series)

    def devices(self) -> list[str]:
        """Return the devices in the order of their numbers: node2 before node10."""
        return sorted(self._series, key=natural)

    def is_switch(self, device: str) -> bool:
        """Whether a device has only meters of switches."""
        return self._series[device].keys() <= SWITCH

    def means(self, device: str, meter: str) -> dict[tuple[str, str], float]:
        """Return the mean of each port and part that has one."""
        values = {}
        for series in self._series[device].get(meter, ()):
            drawn = self._timeline.draw(series, self._start, self._end, BUCKETS)
            middle = (drawn.low + drawn.high) / 2
            middle = middle[~np.isnan(middle)]
            if middle.size:
                values[series.port, series.part] = float(middle.mean())
        return values

    def total(self, device: str, meters: Iterable[str]) -> float | None:
        """Return the sum over meters, ports and parts."""
        return combine_values(sum, [value for meter in meters for value in self.means(device, meter).values()])

    def largest(self, device: str, meters: Iterable[str]) -> float | None:
        """Return the largest of all ports and parts."""
        return combine_values(max, [value for meter in meters for value in self.means(device, meter).values()])

    def rate(self, device: str, meters: Iterable[str]) -> float | None:
        """Return bytes per second; of the meters of a port the larger counts: an interface may count RDMA as well."""
        ports: dict[str, float] = {}
        for meter in meters:
            for (port, _), value in self.means(device, meter).items():
                ports[port] = max(value, ports.get(port, 0.0))
        return combine_values(sum, [value for port, value in ports.items() if port != "lo"])


def combine_values(how: Callable[[Iterable[float]], float], values: Sequence[float]) -> float | None:
    """Return the sum or the largest of values; None if there are none."""
    return how(values) if values else None


def node_rows(timeline: Timeline) -> list[NodeRow]:
    """Return a row for each node: of a run in progress for now, of another for all of it."""
    start, end = period(timeline)
    window = Window(timeline, start, end)
    return [
        NodeRow(
            node=node,
            step_seconds=_latest(timeline, node, "step_seconds")
            if timeline.live
            else window.largest(node, ["step_seconds"]),
            wait_seconds=window.largest(node, ["allreduce_exposed_seconds"]),
            received=window.rate(node, RECEIVED),
            sent=window.rate(node, SENT),
            pause=_times(US, window.largest(node, STOPPED)),
            notified=window.total(node, NOTIFIED),
            faulty=window.total(node, FAULTY),
            cpu=_times(US, window.total(node, ["cpu_busy_us"])),
            gpu=combine_values(_mean, list(window.means(node, "gpu_busy").values())),
            trend=_trend(timeline, node),
        )
        for node in window.devices()
        if not window.is_switch(node)
    ]


def queue_rows(timeline: Timeline) -> list[QueueRow]:
    """Return the queues that held, marked or dropped something, the fullest first."""
    window = Window(timeline, *period(timeline))
    rows = []
    for switch in window.devices():
        depth, marked, dropped = (window.means(switch, meter) for meter in QUEUED)
        for key in {**depth, **marked, **dropped}:
            row = QueueRow(switch, *key, depth.get(key), marked.get(key), dropped.get(key))
            if row.depth or row.marked or row.dropped:
                rows.append(row)
    rows.sort(key=lambda row: (-(row.dropped or 0), -(row.depth or 0), -(row.marked or 0)))
    return rows[:MOST_QUEUES]


def period(timeline: Timeline) -> tuple[float, float]:
    """Return the time that the rows are about."""
    start, end = timeline.start, timeline.end
    return (max(start, end - RECENT_SECONDS), end) if timeline.live else (start, end)


def natural(name: str) -> list[str | int]:
    """Return a key that sorts numbers in names by their size."""
    parts = "".join(f"\0{letter}\0" if letter.isdigit() else letter for letter in name).replace("\0\0", "").split("\0")
    return [part.zfill(12) if part.isdigit() else part for part in parts]


def _latest(timeline: Timeline, node: str, meter: str) -> float | None:
    """Return the last value of the slowest rank: a step may take longer than the window."""
    lasts = []
    for series in timeline.series():
        if (series.device, series.meter) == (node, meter):
            values = timeline.track(series, timeline.end - TREND_SECONDS).values
            lasts += [float(value) for value in values[-1:] if not math.isnan(value)]
    return combine_values(max, lasts)


def _trend(timeline: Timeline, node: str) -> list[float]:
    """Return a few values over the last minute, or over all of a run that has ended."""
    end = timeline.end
    start = max(timeline.start, end - TREND_SECONDS) if timeline.live else timeline.start
    if end <= start:
        return []
    for meters in (("step_seconds",), SENT):
        highest = np.full(TREND, np.nan)
        for series in timeline.series():
            if series.device == node and series.meter in meters and series.port != "lo":
                drawn = timeline.draw(series, start, end, TREND)
                index = np.clip(((drawn.times - start) / (end - start) * TREND).astype(int), 0, TREND - 1)
                np.fmax.at(highest, index, drawn.high)
        if not np.isnan(highest).all():
            return highest.tolist()
    return []


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else value * factor


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
