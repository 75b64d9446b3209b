"""Every meter that sampling reads, and those that a training measures itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Part = Literal["", "priority", "queue", "gpu", "rank", "peer"]


@dataclass(frozen=True, slots=True)
class Meter:
    """The definition of a series: what is counted or measured, in which unit, and of what it is a part."""

    name: str
    unit: str
    """Of the value: `byte`, `packet`, `frame`, `us`, `s`, `W`, … The rate of a counter is this per second."""
    meaning: str
    kind: Literal["counter", "gauge"] = "counter"
    per_port: bool = True
    part: Part = ""
    """What `Series.part` numbers; of a peer it is the address."""
    bits: int = 64
    """Width at which a counter wraps."""
    scale: float = 1.0
    """The value of one stored unit."""
    error: bool = False
    """Zero on a healthy fabric: any growth is worth a mark."""


def _node(name: str, unit: str, meaning: str) -> Meter:
    return Meter(name, unit, meaning, per_port=False)


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
        "tcp_peer_segments", "segment", "TCP segments with data sent to a node, including those sent again", part="peer"
    ),
    Meter("tcp_peer_retransmits", "segment", "TCP segments sent to a node again", part="peer"),
    Meter("tcp_peer_needless", "segment", "those of them that had arrived, as the node reports", part="peer"),
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
    Meter("rdma_damaged_packets", "packet", "RoCE packets with a wrong checksum (ICRC)", error=True),
    Meter("rdma_link_downed", "change", "times the RDMA port went down", bits=32, error=True),
)
_CARD = (
    Meter("pause_rx_frames", "frame", "pause frames received: the neighbour asked this port to stop", part="priority"),
    Meter("pause_tx_frames", "frame", "pause frames sent: this port asked its neighbour to stop", part="priority"),
    Meter("pause_rx_us", "us", "time this port was stopped by its neighbour", part="priority"),
    Meter("pause_tx_us", "us", "time this port had its neighbour stopped", part="priority"),
    Meter("pause_storm_warnings", "1", "times a pause lasted suspiciously long", error=True),
    Meter("pause_storm_errors", "1", "times the card stopped pausing because a pause lasted too long", error=True),
    Meter("priority_rx_bytes", "byte", "bytes received in a priority, RDMA included", part="priority"),
    Meter("priority_tx_bytes", "byte", "bytes sent in a priority, RDMA included", part="priority"),
    Meter("priority_rx_packets", "packet", "packets received in a priority", part="priority"),
    Meter("priority_tx_packets", "packet", "packets sent in a priority", part="priority"),
    Meter(
        "priority_rx_drops", "packet", "packets of a priority dropped for lack of buffer", part="priority", error=True
    ),
    Meter("phy_rx_drops", "packet", "packets dropped by the card for lack of buffer", error=True),
    Meter("phy_crc_errors", "packet", "frames with a wrong checksum", error=True),
    Meter("phy_symbol_errors", "1", "symbols that could not be decoded", error=True),
    Meter("phy_oversize_packets", "packet", "frames longer than the MTU of the port", error=True),
    Meter("pcie_stalled_writes", "1", "writes to memory that waited for PCIe"),
)
_HOST = (
    _node("tcp_segments_sent", "segment", "TCP segments sent"),
    _node("tcp_retransmits", "segment", "TCP segments sent again"),
    _node("tcp_needless", "segment", "TCP segments sent again that had arrived, as their receivers report"),
    _node("ip_ce_packets", "packet", "IP packets received with the mark CE: congestion experienced"),
    Meter("cpu_busy_us", "us", "time processors were busy, summed over all of them", per_port=False),
    Meter("cpu_softirq_us", "us", "part of it spent in soft interrupts, mostly receiving packets", per_port=False),
    Meter("memory_used_bytes", "byte", "memory in use, without caches", kind="gauge", per_port=False),
    Meter("memory_total_bytes", "byte", "memory of the node", kind="gauge", per_port=False),
    Meter("reader_cpu_us", "us", "processor time of the sampling reader itself", per_port=False),
)
_GPU = (
    Meter("gpu_busy", "1", "share of time with a kernel running", "gauge", per_port=False, part="gpu", scale=0.01),
    Meter("gpu_memory_used_bytes", "byte", "memory of a GPU in use", "gauge", per_port=False, part="gpu"),
    Meter("gpu_power", "W", "power of a GPU", "gauge", per_port=False, part="gpu", scale=0.001),
    Meter("gpu_temperature", "°C", "temperature of a GPU", "gauge", per_port=False, part="gpu"),
    Meter("gpu_clock", "MHz", "clock of a GPU's processors", "gauge", per_port=False, part="gpu"),
)
_SWITCH = (
    Meter("switch_rx_bytes", "byte", "bytes that a switch port received"),
    Meter("switch_tx_bytes", "byte", "bytes that a switch port sent"),
    Meter("switch_pause_rx_frames", "frame", "PFC frames that the node sent to the switch"),
    Meter("switch_pause_tx_frames", "frame", "PFC frames that the switch sent to the node"),
    Meter(
        "switch_priority_pause_rx_frames", "frame", "PFC frames of a priority that the switch received", part="priority"
    ),
    Meter("switch_priority_pause_tx_frames", "frame", "PFC frames of a priority that the switch sent", part="priority"),
    Meter("queue_tx_bytes", "byte", "bytes that a queue sent", part="queue"),
    Meter("queue_tx_packets", "packet", "packets that a queue sent", part="queue"),
    Meter("queue_drop_packets", "packet", "packets that a queue dropped", part="queue"),
    Meter("queue_ecn_marked_packets", "packet", "packets that a queue marked with CE", part="queue"),
    Meter("queue_wred_drop_packets", "packet", "packets dropped by WRED", part="queue"),
    Meter("queue_depth_bytes", "byte", "bytes in a queue", "gauge", part="queue"),
    Meter("ingress_drop_packets", "packet", "packets dropped on arrival for lack of buffer", error=True),
    Meter("watchdog_shutdowns", "1", "times the PFC watchdog shut a queue", part="queue", error=True),
    Meter("watchdog_restores", "1", "times the PFC watchdog opened it again", part="queue"),
    Meter("switch_crc_errors", "packet", "frames with a wrong checksum", error=True),
    Meter("switch_stomped_packets", "packet", "frames that an upstream hop already marked as damaged", error=True),
    Meter("switch_giants", "packet", "frames longer than the MTU of the port", error=True),
)
_TRAINING = tuple(
    Meter(name, unit, meaning, "gauge", per_port=False, part="rank")
    for name, unit, meaning in (
        ("loss", "nat", "cross-entropy of the training batch"),
        ("step_seconds", "s", "duration of a step"),
        ("allreduce_exposed_seconds", "s", "waiting for the network after the backward pass"),
        ("idle_seconds", "s", "waiting for slower ranks"),
        ("data_seconds", "s", "reading the batch"),
        ("tokens_per_second", "token/s", "tokens of all ranks per second"),
    )
)
"""Read from the records of a run, not sampled."""

METERS: Mapping[str, Meter] = {
    meter.name: meter for meter in (*_NETWORK, *_PEERS, *_RDMA, *_CARD, *_HOST, *_GPU, *_SWITCH, *_TRAINING)
}
"""Every meter by its name."""
