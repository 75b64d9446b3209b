"""Every number that railbed measures: its name, unit and meaning, and what has one.

A unit belongs to a name and never changes; what was measured, where and how is in the labels. Counters and gauges are
series: sampling reads them on devices, or a training measures them in each step. All others are results, which are in
records alone.

A sample is a whole number: a counter as the device counts it, in the unit of its meter, or a gauge divided by its
scale. Only readers turn counters into rates. A value that a device does not have is absent, never zero.

`docs/reference/records.md` and `docs/reference/metrics.md` list them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "result"]
Of = Literal["port", "priority", "queue", "peer", "node", "gpu", "rank", "run", "trial"]
PARTS = ("priority", "queue", "peer", "gpu", "rank")
"""What `SeriesKey.part` numbers; of a peer it is the address."""

MISSING = -(1 << 63)
"""Stored in place of a value that a device did not report."""


class SeriesKey(NamedTuple):
    """The identity of a series."""

    device: str
    """A node or a switch, by its name in the cluster file."""
    meter: str
    port: str = ""
    """The interface of a node (also for its RDMA device), or the port of a switch."""
    part: str = ""
    """Number of the priority, queue, GPU or rank."""


class Sample(NamedTuple):
    """What a device reported at one time."""

    device: str
    time: float
    """Seconds since the epoch, on the clock of this machine."""
    layout: tuple[SeriesKey, ...]
    """The series of the values: the same object for every sample of a device, until its series change."""
    values: Sequence[int]
    """One for each series; MISSING where the device reported none."""


@dataclass(frozen=True, slots=True)
class Meter:
    """The definition of a number."""

    name: str
    unit: str
    """Of the value: `byte`, `packet`, `frame`, `us`, `s`, `W`, … The rate of a counter is this per second."""
    meaning: str
    kind: Kind = "counter"
    _: KW_ONLY
    of: Of = "port"
    """What has a value of its own."""
    labels: tuple[str, ...] = ("device", "port", "part", "stat")
    """Of its measurements."""
    title: str = ""
    """The name as shown to people."""
    bits: int = 64
    """Width at which a counter wraps."""
    scale: float = 1.0
    """The value of one stored unit."""
    error: bool = False
    """Zero on a healthy fabric: any growth is worth a mark."""
    once: bool = False
    """Equal on all ranks, or a total over all ranks: recorded once, from rank 0."""
    of_state: bool = False
    """Of the state after a step: ranks that resume from it measure it before their first step, or without any step if
    it was the last."""

    @property
    def per_port(self) -> bool:
        """Whether each port has values of its own."""
        return self.of in ("port", "priority", "queue", "peer")

    @property
    def part(self) -> str:
        """What `SeriesKey.part` numbers; empty if it is not used."""
        return self.of if self.of in PARTS else ""

    @property
    def recorded_name(self) -> str:
        """The name of its measurements: of a counter, they are rates."""
        return f"{self.name}_rate" if self.kind == "counter" else self.name

    @property
    def recorded_unit(self) -> str:
        """The unit of its measurements."""
        return f"{self.unit}/s" if self.kind == "counter" else self.unit


_NETWORK = (
    Meter("net_rx_bytes", "byte", "bytes that an interface received, without what RDMA bypasses"),
    Meter("net_tx_bytes", "byte", "bytes that an interface sent, without what RDMA bypasses"),
    Meter("net_rx_packets", "packet", "packets that an interface received"),
    Meter("net_tx_packets", "packet", "packets that an interface sent"),
    Meter("net_rx_errors", "packet", "damaged packets that an interface received", error=True),
    Meter("net_tx_errors", "packet", "packets that an interface could not send", error=True),
    Meter("net_rx_drops", "packet", "received packets that the kernel dropped"),
    Meter("net_tx_drops", "packet", "packets that the kernel dropped before sending"),
    Meter("net_carrier_changes", "change", "times the link went up or down", bits=32, error=True),
    Meter("qdisc_backlog_bytes", "byte", "bytes that wait in the interface's queueing discipline", kind="gauge"),
    Meter("qdisc_drops", "packet", "packets that the queueing discipline dropped", bits=32),
    Meter("qdisc_overlimits", "packet", "times the queueing discipline delayed a packet to keep its rate", bits=32),
    Meter("tcp_rtt_us", "us", "longest round-trip time of the TCP connections that send over an interface", "gauge"),
    Meter("tcp_slowest_peer", "address", "the IPv4 address, as a number, of the peer with that time", "gauge"),
    Meter("tcp_training_tx_bytes", "byte", "bytes that TCP connections of the sampled training sent"),
    Meter("tcp_training_rx_bytes", "byte", "bytes that TCP connections of the sampled training received"),
    Meter("tcp_foreign_tx_bytes", "byte", "bytes that TCP connections of other programs sent"),
    Meter("tcp_foreign_rx_bytes", "byte", "bytes that TCP connections of other programs received"),
    Meter("tcp_foreign_tx_peer", "address", "the IPv4 address, as a number, that those sent most to", "gauge"),
    Meter("tcp_foreign_rx_peer", "address", "the IPv4 address, as a number, that those received most from", "gauge"),
)
_PEERS = (
    Meter(
        "tcp_peer_segments", "segment", "TCP segments with data sent to a node, including those sent again", of="peer"
    ),
    Meter("tcp_peer_retransmits", "segment", "TCP segments sent to a node again", of="peer"),
    Meter("tcp_peer_needless", "segment", "those of them that had arrived, as the node reports", of="peer"),
)
_RDMA = (
    Meter("rdma_rx_bytes", "byte", "bytes that the RDMA port received"),
    Meter("rdma_tx_bytes", "byte", "bytes that the RDMA port sent"),
    Meter("rdma_rx_packets", "packet", "packets that the RDMA port received"),
    Meter("rdma_tx_packets", "packet", "packets that the RDMA port sent"),
    Meter("rdma_ecn_marked_packets", "packet", "received RoCE packets with a congestion mark"),
    Meter("rdma_cnp_sent", "packet", "congestion notifications sent by the receiver"),
    Meter("rdma_cnp_handled", "packet", "congestion notifications that slowed the sender down"),
    Meter("rdma_cnp_ignored", "packet", "congestion notifications that the sender ignored", error=True),
    Meter(
        "rdma_out_of_sequence", "packet", "packets that arrived out of sequence, counted by the receiver", error=True
    ),
    Meter("rdma_sequence_naks", "packet", "sequence errors reported to the sender", error=True),
    Meter("rdma_timeouts", "1", "acknowledgements that did not arrive in time", error=True),
    Meter("rdma_retransmits", "packet", "packets that the card sent again", error=True),
    Meter("rdma_retries_exceeded", "1", "connections given up after all retries", error=True),
    Meter("rdma_receiver_not_ready", "packet", "packets refused because the receiver had no buffer posted"),
    Meter("rdma_out_of_buffer", "packet", "packets dropped because the receiver had no buffer posted"),
    Meter("rdma_duplicate_requests", "packet", "requests that arrived twice"),
    Meter(
        "rdma_damaged_packets",
        "packet",
        "RoCE packets that a device changed on the way: wrong checksum (ICRC)",
        error=True,
    ),
    Meter("rdma_link_downed", "change", "times the RDMA port went down", bits=32, error=True),
)
_CARD = (
    Meter("pause_rx_frames", "frame", "pause frames received: the neighbour asked this port to stop", of="priority"),
    Meter("pause_tx_frames", "frame", "pause frames sent: this port asked its neighbour to stop", of="priority"),
    Meter("pause_rx_us", "us", "time this port was stopped by its neighbour", of="priority"),
    Meter("pause_tx_us", "us", "time this port had its neighbour stopped", of="priority"),
    Meter("pause_storm_warnings", "1", "times a pause lasted suspiciously long", error=True),
    Meter("pause_storm_errors", "1", "times the card stopped pausing because a pause lasted too long", error=True),
    Meter("priority_rx_bytes", "byte", "bytes received in a priority, RDMA included", of="priority"),
    Meter("priority_tx_bytes", "byte", "bytes sent in a priority, RDMA included", of="priority"),
    Meter("priority_rx_packets", "packet", "packets received in a priority", of="priority"),
    Meter("priority_tx_packets", "packet", "packets sent in a priority", of="priority"),
    Meter("priority_rx_drops", "packet", "packets of a priority dropped for lack of buffer", of="priority", error=True),
    Meter("phy_rx_drops", "packet", "packets dropped by the card for lack of buffer", error=True),
    Meter("phy_crc_errors", "packet", "frames with a wrong checksum", error=True),
    Meter("phy_symbol_errors", "1", "symbols that could not be decoded", error=True),
    Meter("phy_oversize_packets", "packet", "frames longer than the MTU of the port", error=True),
    Meter("pcie_stalled_writes", "1", "writes to memory that waited for PCIe"),
)
_HOST = (
    Meter("tcp_segments_sent", "segment", "TCP segments sent", of="node"),
    Meter("tcp_retransmits", "segment", "TCP segments sent again", of="node"),
    Meter("tcp_needless", "segment", "TCP segments sent again that had arrived, as their receivers report", of="node"),
    Meter("ip_ce_packets", "packet", "IP packets received with the mark CE: congestion experienced", of="node"),
    Meter("cpu_busy_us", "us", "time processors were busy, summed over all of them", of="node"),
    Meter("cpu_softirq_us", "us", "part of it spent in soft interrupts, mostly receiving packets", of="node"),
    Meter("memory_used_bytes", "byte", "memory in use, without caches", kind="gauge", of="node"),
    Meter("memory_total_bytes", "byte", "memory of the node", kind="gauge", of="node"),
    Meter("reader_cpu_us", "us", "processor time of the sampling reader itself", of="node"),
)
_GPU = (
    Meter("gpu_busy", "1", "share of time with a kernel running", "gauge", of="gpu", scale=0.01),
    Meter("gpu_memory_used_bytes", "byte", "memory of a GPU in use", "gauge", of="gpu"),
    Meter("gpu_power", "W", "power of a GPU", "gauge", of="gpu", scale=0.001),
    Meter("gpu_temperature", "°C", "temperature of a GPU", "gauge", of="gpu"),
    Meter("gpu_clock", "MHz", "clock of a GPU's processors", "gauge", of="gpu"),
)
_SWITCH = (
    Meter("switch_rx_bytes", "byte", "bytes that a switch port received"),
    Meter("switch_tx_bytes", "byte", "bytes that a switch port sent"),
    Meter("switch_pause_rx_frames", "frame", "PFC frames that the node sent to the switch"),
    Meter("switch_pause_tx_frames", "frame", "PFC frames that the switch sent to the node"),
    Meter(
        "switch_priority_pause_rx_frames", "frame", "PFC frames of a priority that the switch received", of="priority"
    ),
    Meter("switch_priority_pause_tx_frames", "frame", "PFC frames of a priority that the switch sent", of="priority"),
    Meter("queue_tx_bytes", "byte", "bytes that a queue sent", of="queue"),
    Meter("queue_tx_packets", "packet", "packets that a queue sent", of="queue"),
    Meter("queue_drop_packets", "packet", "packets that a queue dropped", of="queue"),
    Meter("queue_ecn_marked_packets", "packet", "packets that a queue marked with CE", of="queue"),
    Meter("queue_wred_drop_packets", "packet", "packets dropped by WRED", of="queue"),
    Meter("queue_depth_bytes", "byte", "bytes in a queue", "gauge", of="queue"),
    Meter("ingress_drop_packets", "packet", "packets dropped on arrival for lack of buffer", error=True),
    Meter("watchdog_shutdowns", "1", "times the PFC watchdog shut a queue", of="queue", error=True),
    Meter("watchdog_restores", "1", "times the PFC watchdog opened it again", of="queue"),
    Meter("switch_crc_errors", "packet", "frames with a wrong checksum", error=True),
    Meter("switch_stomped_packets", "packet", "frames that an upstream hop already marked as damaged", error=True),
    Meter("switch_giants", "packet", "frames longer than the MTU of the port", error=True),
)
_TRIAL = ("test", "tool", "version", "trial", "repeat", "size", "stat", "arm")
_ENDS = ("pair", "direction", "from", "to", "rail", "pattern", "streams", "memory", "traffic_class")
_LINK = (*_TRIAL, *_ENDS)
_DISK = (*_TRIAL, "node", "operation", "direct")
_COST = (*_LINK, "node")
_ALL = ("test", "tool", "version", "trial", "repeat", "engine", "over", "size", "ranks", "nodes", "iterations", "node")
_ENGINE = ("engine", "bytes", "rank", "node")
_COMPARED = ("comparison", "measure")
_STEP = ("step", "rank", "node")
_BOUND = ("node", "rail", "bound")


def _of_step(
    name: str, unit: str, meaning: str, kind: Kind = "result", *, once: bool = False, of_state: bool = False
) -> Meter:
    """Return what ranks measure in a step; a gauge is also drawn over time."""
    return Meter(name, unit, meaning, kind, of="rank", labels=_STEP, once=once, of_state=of_state)


def _result(name: str, unit: str, meaning: str, labels: tuple[str, ...], *, of: Of = "trial", title: str = "") -> Meter:
    """Return what is only in records."""
    return Meter(name, unit, meaning, "result", of=of, labels=labels, title=title)


_TRAINING = (
    _of_step("loss", "nat", "cross-entropy of the training batch", "gauge", once=True),
    _of_step("validation_loss", "nat", "cross-entropy of held-out text after a step", once=True, of_state=True),
    _result("perplexity", "1", "of held-out text, before and after fine-tuning", ("split", "when"), of="run"),
    _of_step("learning_rate", "1", "the learning rate of a step", once=True),
    _of_step("gradient_norm", "1", "the norm of the gradient before clipping", once=True),
    _of_step("loss_scale", "1", "factor of the loss in fp16, halved when gradients overflow", once=True),
    _of_step("tokens", "token", "tokens of a step's documents, without padding", once=True),
    _of_step("trained_tokens", "token", "those of them that the model learns to write", once=True),
    _of_step("tokens_per_second", "token/s", "tokens of all ranks per second", "gauge", once=True),
    _of_step("mfu", "1", "share of the device's peak operations that the model used"),
    _of_step("step_seconds", "s", "duration of a step", "gauge"),
    _of_step("data_seconds", "s", "reading the batch", "gauge"),
    _of_step("forward_seconds", "s", "forward pass"),
    _of_step("backward_seconds", "s", "backward pass, without waiting for the network"),
    _of_step("allreduce_exposed_seconds", "s", "waiting for the network after the backward pass", "gauge"),
    _of_step("optimiser_seconds", "s", "updating the weights"),
    _of_step("other_seconds", "s", "the rest of a step"),
    _of_step("idle_seconds", "s", "waiting for slower ranks", "gauge"),
    _of_step("bytes_sent", "byte", "gradients that a rank sent"),
    _of_step("peak_memory_bytes", "byte", "peak memory of a rank", of_state=True),
    _result("sequences", "sequence", "sequences of the batch that a rank learned from", (*_STEP, "first"), of="rank"),
    _result("allreduce_trial_seconds", "s", "an all-reduce while an engine was tested", _ENGINE, of="rank"),
    _result("allreduce_trial_rate", "byte/s", "the rate of that all-reduce", _ENGINE, of="rank"),
    _result("gradient_bytes", "byte", "gradients that had to leave a node", ("node",), of="node"),
    _result("rdma_bytes", "byte", "bytes that a rail sent over RDMA, at least and at most", _BOUND, of="node"),
    _result("tcp_bytes", "byte", "bytes that ranks sent over TCP, at least and at most", _BOUND, of="node"),
)
_BENCH = (
    _result("bandwidth", "Gb/s", "payload from one node to another", _LINK, title="bandwidth"),
    _result("bandwidth_peak", "Gb/s", "the highest rate seen during the measurement", _LINK),
    _result("message_rate", "1/s", "messages per second", _LINK),
    _result("half_round_trip", "us", "half the time to a node and back", _LINK, title="half a round trip"),
    _result("round_trip", "us", "the time to a node and back", _LINK, title="a whole round trip"),
    _result("samples", "1", "single times that the percentiles of a latency test come from", _LINK),
    _result("retransmits", "1", "TCP segments that were sent again", _LINK),
    _result("lost_messages", "1", "messages without an answer", _LINK),
    _result("disk_bandwidth", "GB/s", "bytes read from or written to a disk", _DISK, title="disk bandwidth"),
    _result("disk_operations", "1/s", "disk operations per second", _DISK, title="disk operations"),
    _result("disk_latency", "us", "the time of one disk operation", _DISK),
    _result("collective_time", "us", "one collective operation over all ranks", _ALL),
    _result("algorithm_bandwidth", "GB/s", "size of the data divided by that time", _ALL, title="algorithm bandwidth"),
    _result("bus_bandwidth", "GB/s", "the rate that a link had to carry", _ALL, title="bus bandwidth"),
    _result("cpu_seconds", "s", "processor time of a node during a trial", _COST),
    _result("cpu_seconds_per_gb", "s/GB", "processor time per gigabyte of payload", _COST),
    _result(
        "arm_value", "as measured", "the result of one arm of an experiment", (*_COMPARED, "arm", "test", "repeat")
    ),
    _result(
        "arm_mean",
        "as measured",
        "the mean of an arm's results that were compared",
        (*_COMPARED, "arm", "test", "repeats"),
    ),
    _result(
        "difference",
        "as measured",
        "B minus A: the mean and its interval",
        (*_COMPARED, "a", "b", "test_a", "test_b", "repeats", "bound"),
    ),
)

_DEVICES = (*_NETWORK, *_PEERS, *_RDMA, *_CARD, *_HOST, *_GPU, *_SWITCH)
METERS: Mapping[str, Meter] = {
    meter.name: meter for meter in (*_DEVICES, *(meter for meter in _TRAINING if meter.kind == "gauge"))
}
"""Every series, by its name."""
RECORDED: Mapping[str, Meter] = {meter.recorded_name: meter for meter in (*_TRAINING, *_BENCH, *_DEVICES)}
"""Every measurement that a record may have, by its name there."""


def is_of_state(name: str) -> bool:
    """Whether measurements of this name are of the state after a step; not known of a name from a later version."""
    meter = RECORDED.get(name)
    return meter is not None and meter.of_state
