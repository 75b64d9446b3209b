"""The one list of charts: what is drawn together, under which title, in which unit.

The live page has all of them. The report has less room, and draws summaries, with one line for each device. In the
dashboard, a panel that shows the same as a chart takes title, unit and note from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from railbed.model.meters import METERS, Meter

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
    _: KW_ONLY
    quiet: bool = False
    """Zero is normal: the page only counts series that are zero throughout, and the report omits the chart."""
    highest: bool = False
    """In one line for each device, its ranks and queues are not added: the highest counts."""
    note: str = ""
    """What to look for."""


_US = 1e-6
_ERRORS_ELSEWHERE = ("rdma_cnp_ignored", "ingress_drop_packets")
_CHARTS = (
    Chart("loss", "training", "Loss", ("loss",), "nat", highest=True),
    Chart(
        "step", "training", "Step time", ("step_seconds",), "s", highest=True, note="All ranks wait for the slowest."
    ),
    Chart(
        "allreduce",
        "training",
        "All-reduce wait",
        ("allreduce_exposed_seconds",),
        "s",
        highest=True,
        note="Waiting for the network after the backward pass.",
    ),
    Chart(
        "idle",
        "training",
        "Waiting for slower ranks",
        ("idle_seconds",),
        "s",
        note="The rank that never waits is the slow one.",
    ),
    Chart("tokens", "training", "Tokens per second", ("tokens_per_second",), "1/s"),
    Chart(
        "pause-in",
        "pause",
        "Stopped by the neighbour",
        ("pause_rx_us",),
        "share",
        _US,
        quiet=True,
        highest=True,
        note="The fabric is congested.",
    ),
    Chart(
        "pause-out",
        "pause",
        "Stopping the neighbour",
        ("pause_tx_us",),
        "share",
        _US,
        quiet=True,
        highest=True,
        note="The node does not take packets fast enough.",
    ),
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
    Chart("depth", "queues", "Queue depth", ("queue_depth_bytes",), "B", quiet=True, highest=True),
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
    Chart("softirq", "host", "Soft interrupts", ("cpu_softirq_us",), "cores", _US, note="Mostly receiving packets."),
    Chart("memory", "host", "Memory in use", ("memory_used_bytes",), "B"),
    Chart("gpu", "gpu", "GPU busy", ("gpu_busy",), "share", highest=True),
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
CHART_OF: Mapping[str, Chart] = {meter: chart for chart in CHARTS for meter in chart.meters}
"""The chart of each meter."""
CHART_NAMED: Mapping[str, Chart] = {chart.name: chart for chart in CHARTS}


def _summary(title: str, *names: str, quiet: bool = False) -> Chart:
    """Return a chart that has the meters of several; they have the same unit."""
    parts = [CHART_NAMED[name] for name in names]
    return Chart(
        "-".join(names),
        "summary",
        title,
        tuple(meter for chart in parts for meter in chart.meters),
        parts[0].unit,
        parts[0].scale,
        quiet=quiet or parts[0].quiet,
        highest=any(chart.highest for chart in parts),
    )


_LOST = ("tcp_retransmits", "rdma_retransmits", "rdma_out_of_sequence", "rdma_timeouts")
_DROPPED = ("qdisc_drops", "priority_rx_drops", "phy_rx_drops", "queue_drop_packets", "ingress_drop_packets")
SUMMARIES: Sequence[Chart] = (
    CHART_NAMED["loss"],
    CHART_NAMED["step"],
    CHART_NAMED["allreduce"],
    _summary("Paused (PFC), share of the time", "pause-in", "pause-out"),
    _summary("Pause frames", "pause-frames", "pause-switch"),
    _summary("Packets marked as congested (ECN)", "ce", "marked"),
    Chart("cnp-sent", "summary", "Congestion notifications sent (CNP)", ("rdma_cnp_sent",), "1/s", quiet=True),
    _summary("Fullest queue", "depth", "backlog"),
    Chart("lost", "summary", "Lost and repeated packets", (*_LOST, *_DROPPED), "1/s", quiet=True),
    _summary("Sent", "net-out", "rdma-out", "switch-out", quiet=True),
    CHART_NAMED["cpu"],
    _summary("GPUs busy, the busiest of a node", "gpu"),
)
"""The charts of a report, each with one line for each device."""
