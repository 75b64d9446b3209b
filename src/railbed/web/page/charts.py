"""What is drawn together, in which order and unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from railbed.model.series import METERS, Meter, Series

GROUPS: Mapping[str, str] = {
    "training": "Training",
    "pause": "Pause (PFC)",
    "ecn": "Congestion marks (ECN, CNP)",
    "queues": "Switch queues",
    "network": "Network",
    "errors": "Errors and drops",
    "host": "Processor and memory",
    "gpu": "GPU",
    "more": "More",
}
"""Groups of charts with their titles, in the order of the page."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Meters of the same unit on the same axes."""

    name: str
    group: str
    title: str
    meters: tuple[str, ...]
    unit: str
    scale: float = 1.0
    """From the unit of the meters to that of the chart."""
    quiet: bool = False
    """Zero is normal: series that are zero throughout are only counted."""


_US = 1e-6
_ERRORS_ELSEWHERE = ("rdma_cnp_ignored", "ingress_drop_packets")
_CHARTS = (
    Chart("loss", "training", "Loss", ("loss",), "nat"),
    Chart("step", "training", "Step time", ("step_seconds",), "s"),
    Chart("allreduce", "training", "All-reduce wait", ("allreduce_exposed_seconds",), "s"),
    Chart("idle", "training", "Waiting for slower ranks", ("idle_seconds",), "s"),
    Chart("tokens", "training", "Tokens per second", ("tokens_per_second",), "1/s"),
    Chart("pause-in", "pause", "Stopped by the neighbour", ("pause_rx_us",), "share", _US, quiet=True),
    Chart("pause-out", "pause", "Stopping the neighbour", ("pause_tx_us",), "share", _US, quiet=True),
    Chart("pause-frames", "pause", "Pause frames of nodes", ("pause_rx_frames", "pause_tx_frames"), "1/s", quiet=True),
    Chart(
        "pause-switch",
        "pause",
        "Pause frames of switches",
        ("switch_pause_rx_frames", "switch_pause_tx_frames"),
        "1/s",
        quiet=True,
    ),
    Chart("ce", "ecn", "Packets received with CE", ("rdma_ecn_marked_packets", "ip_ce_packets"), "1/s", quiet=True),
    Chart(
        "cnp",
        "ecn",
        "Congestion notifications",
        ("rdma_cnp_sent", "rdma_cnp_handled", "rdma_cnp_ignored"),
        "1/s",
        quiet=True,
    ),
    Chart("marked", "ecn", "Packets marked by switches", ("queue_ecn_marked_packets",), "1/s", quiet=True),
    Chart("depth", "queues", "Queue depth", ("queue_depth_bytes",), "B", quiet=True),
    Chart("queue-rate", "queues", "Queue rate", ("queue_tx_bytes",), "bit/s", 8, quiet=True),
    Chart(
        "queue-drops",
        "queues",
        "Queue drops",
        ("queue_drop_packets", "queue_wred_drop_packets", "ingress_drop_packets"),
        "1/s",
        quiet=True,
    ),
    Chart("rdma-out", "network", "RDMA sent", ("rdma_tx_bytes",), "bit/s", 8),
    Chart("rdma-in", "network", "RDMA received", ("rdma_rx_bytes",), "bit/s", 8),
    Chart("net-out", "network", "Interface sent", ("net_tx_bytes",), "bit/s", 8),
    Chart("net-in", "network", "Interface received", ("net_rx_bytes",), "bit/s", 8),
    Chart("switch-out", "network", "Switch port sent", ("switch_tx_bytes",), "bit/s", 8),
    Chart("switch-in", "network", "Switch port received", ("switch_rx_bytes",), "bit/s", 8),
    Chart("tcp", "network", "TCP retransmits", ("tcp_retransmits",), "1/s", quiet=True),
    Chart("tcp-peer", "network", "TCP retransmits by peer", ("tcp_peer_retransmits",), "1/s", quiet=True),
    Chart("backlog", "network", "Waiting to be sent", ("qdisc_backlog_bytes",), "B", quiet=True),
    Chart(
        "errors",
        "errors",
        "Errors",
        tuple(name for name, meter in METERS.items() if meter.error and name not in _ERRORS_ELSEWHERE),
        "1/s",
        quiet=True,
    ),
    Chart(
        "drops",
        "errors",
        "Drops",
        ("net_rx_drops", "net_tx_drops", "qdisc_drops", "rdma_out_of_buffer", "rdma_receiver_not_ready"),
        "1/s",
        quiet=True,
    ),
    Chart("cpu", "host", "Busy processors", ("cpu_busy_us",), "cores", _US),
    Chart("softirq", "host", "Soft interrupts", ("cpu_softirq_us",), "cores", _US),
    Chart("memory", "host", "Memory in use", ("memory_used_bytes",), "B"),
    Chart("gpu", "gpu", "GPU busy", ("gpu_busy",), "share"),
    Chart("gpu-memory", "gpu", "GPU memory in use", ("gpu_memory_used_bytes",), "B"),
    Chart("gpu-power", "gpu", "GPU power", ("gpu_power",), "W"),
    Chart("gpu-temperature", "gpu", "GPU temperature", ("gpu_temperature",), "°C"),
    Chart("gpu-clock", "gpu", "GPU clock", ("gpu_clock",), "MHz"),
)


def _own_chart(meter: Meter) -> Chart:
    """Return the chart of a meter that is in no other."""
    title = meter.name.replace("_", " ").capitalize()
    name = meter.name.replace("_", "-")
    rate = "1/s" if meter.unit in ("packet", "frame", "1", "change", "segment") else f"{meter.unit}/s"
    match meter.kind, meter.unit:
        case "counter", "byte":
            return Chart(name, "more", title, (meter.name,), "bit/s", 8, quiet=True)
        case "counter", "us":
            return Chart(name, "more", title, (meter.name,), "share", _US, quiet=True)
        case "counter", _:
            return Chart(name, "more", title, (meter.name,), rate, quiet=True)
        case _, "byte":
            return Chart(name, "more", title, (meter.name,), "B")
    return Chart(name, "more", title, (meter.name,), meter.unit)


_DRAWN = {meter for chart in _CHARTS for meter in chart.meters}
CHARTS: Sequence[Chart] = (*_CHARTS, *(_own_chart(meter) for meter in METERS.values() if meter.name not in _DRAWN))
"""Every meter is in exactly one chart."""
CHART_OF = {meter: chart for chart in CHARTS for meter in chart.meters}


@dataclass(slots=True)
class Catalogue:
    """The series of a run by number; a number never changes, so that answers can refer to it."""

    series: list[Series] = field(default_factory=list)
    _numbers: dict[Series, int] = field(default_factory=dict)

    def add(self, series: Iterable[Series]) -> None:
        """Number the series that are new; a meter that this version does not have is left out."""
        for identity in series:
            if identity not in self._numbers and identity.meter in CHART_OF:
                self._numbers[identity] = len(self.series)
                self.series.append(identity)

    def of(self, chart: Chart) -> list[int]:
        """Return the numbers of a chart's series."""
        return [number for number, series in enumerate(self.series) if series.meter in chart.meters]

    def charts(self) -> list[Chart]:
        """Return the charts that have series."""
        present = {series.meter for series in self.series}
        return [chart for chart in CHARTS if present.intersection(chart.meters)]
