"""Bytes of a node between two readings: over TCP, by owner of the connection, and over RDMA and its interfaces.

TCP bytes are of the ranks, of other programs, or unclear.

Cards count differently: bytes, words of 4 bytes, or only packets (Soft-RoCE), whose size is only known within bounds.
The packets of Soft-RoCE pass through the interface below it and are counted there as well; those of hardware are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railbed.model.statistics import Range, growth_between


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpReading:
    """Bytes that the connections of a node have sent since its ranks began to sample."""

    node_segments: tuple[int, int]
    """Data segments that the node has sent, just before and just after the sample."""
    segments: int
    """Data segments that the connections account for, without retransmissions."""
    ranks: Mapping[str, int]
    """Bytes of the ranks to other machines, by interface."""
    others: Mapping[str, int]
    """Bytes of other programs to other machines, by interface."""
    unclear: int
    """Bytes of connections whose owner is unknown."""

    @classmethod
    def of(cls, counted: Mapping[str, Any]) -> TcpReading | None:
        """Return the reading in a rank's message; None if it has none."""
        if "node_segments" not in counted:
            return None
        return cls(
            node_segments=tuple(counted["node_segments"]),
            segments=counted["segments"],
            ranks=dict(counted["ranks"]),
            others=dict(counted["others"]),
            unclear=counted["unclear"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSentBytes:
    """Bytes that a node sent over TCP."""

    ranks: Mapping[str, int]
    others: Mapping[str, int]
    unclear: Range
    """Bytes without a known owner: hidden processes, and connections that came and went between two samples."""

    def __add__(self, other: TcpSentBytes) -> TcpSentBytes:
        return TcpSentBytes(
            ranks=Counter(self.ranks) + Counter(other.ranks),
            others=Counter(self.others) + Counter(other.others),
            unclear=self.unclear + other.unclear,
        )


def tcp_sent_between(before: TcpReading, after: TcpReading, longest: int) -> TcpSentBytes:
    """Return the bytes sent between two readings of the same rank; no segment carries more than `longest`."""
    sent = growth_between(before.node_segments[0], after.node_segments[1])
    unseen = None if sent.most is None else max(0, sent.most - (after.segments - before.segments)) * longest
    unclear = Range(0, None if unseen is None else unseen + after.unclear - before.unclear)
    return TcpSentBytes(
        ranks=_difference(after.ranks, before.ranks), others=_difference(after.others, before.others), unclear=unclear
    )


def _difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: max(0, count - before.get(name, 0)) for name, count in after.items()}


BYTES = ("hw_counters/rdma_tx_bytes", "hw_counters/tx_rdma_ucast_bytes", "hw_counters/tx_bytes")
"""mlx5 if enabled, AMD Pensando, and Broadcom and EFA."""
WORDS = "counters/port_xmit_data"
PACKETS = "hw_counters/sent_pkts"
"""The only counter of Soft-RoCE."""
RDMA_COUNTERS = (*BYTES, WORDS, PACKETS)
WORD_BYTES = 4
LARGEST_PATH_MTU = 4096
SOFT_ROCE_HEADERS = 80
"""Bytes of the interface's MTU that Soft-RoCE reserves for headers."""
LEAST_FRAME, MOST_HEADERS = 58, 128
"""On the interface: an empty packet (Ethernet, IP, UDP, BTH, ICRC), and the longest headers around a payload."""
ETHERNET_BYTES = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceReading:
    """A network interface at one moment."""

    tx_bytes: int
    mtu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """A node's counters at one moment. A counter that the card does not have is absent."""

    rdma: Mapping[str, Mapping[str, int]]
    """By `device/port` and name."""
    net: Mapping[str, InterfaceReading]
    tcp_segments: int | None = None
    """All segments that the node has sent."""
    tcp: TcpReading | None = None
    """Bytes of its connections; None if unknown."""
    tcp_unread: str = ""
    """Why it is not."""

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> CounterReading:
        """Return the reading in a rank's message."""
        connections = message.get("connections") or {}
        return cls(
            rdma={str(port): dict(counters) for port, counters in message["rdma"].items()},
            net={str(name): InterfaceReading(**interface) for name, interface in message["net"].items()},
            tcp_segments=message.get("tcp_segments"),
            tcp=TcpReading.of(connections),
            tcp_unread=str(connections.get("reason", "")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSentBytes:
    """Bytes that an RDMA port sent."""

    payload: Range
    frames: Range = field(default_factory=lambda: Range.exactly(0))
    """Its part of the bytes of the interface below; 0 for hardware."""

    def __add__(self, other: PortSentBytes) -> PortSentBytes:
        return PortSentBytes(payload=self.payload + other.payload, frames=self.frames + other.frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBytes:
    """Bytes that a node sent, in one or several intervals between two readings."""

    rdma: Mapping[str, PortSentBytes | None]
    """By `device/port`; None for a card that does not count the bytes it sends."""
    net: Mapping[str, Range]
    """All bytes by interface."""
    tcp: Range
    """TCP of the whole node, if all segments were as long as the longest frame of its interfaces."""
    connections: TcpSentBytes | None = None
    """TCP of the whole node by connection; None if it is unknown for some of the time."""
    unread: str = ""
    """Why it is not."""

    def __add__(self, other: SentBytes) -> SentBytes:
        rdma: dict[str, PortSentBytes | None] = dict(self.rdma)
        for port, more in other.rdma.items():
            before = rdma.get(port, more)
            rdma[port] = None if more is None or before is None else (before + more if port in self.rdma else more)
        nothing = Range.exactly(0)
        names = {*self.net, *other.net}
        net = {name: self.net.get(name, nothing) + other.net.get(name, nothing) for name in names}
        return SentBytes(
            rdma=rdma,
            net=net,
            tcp=self.tcp + other.tcp,
            connections=self.connections + other.connections if self.connections and other.connections else None,
            unread=self.unread or other.unread,
        )


def sent_between(before: CounterReading, after: CounterReading, netdevs: Mapping[str, str]) -> SentBytes:
    """Return the bytes sent between two readings; `netdevs` are the interfaces of RDMA ports, by `device/port`."""
    rdma = {
        port: _port_sent_between(before.rdma.get(port, {}), counters, after.net.get(netdevs.get(port, "")))
        for port, counters in after.rdma.items()
    }
    net = {
        name: growth_between(before.net[name].tx_bytes, interface.tx_bytes)
        for name, interface in after.net.items()
        if name in before.net
    }
    longest = max((interface.mtu for name, interface in after.net.items() if name != "lo"), default=0) + ETHERNET_BYTES
    tcp = Range(0, None)
    if before.tcp_segments is not None and after.tcp_segments is not None:
        tcp = growth_between(before.tcp_segments, after.tcp_segments).times(0, longest)
    connections = tcp_sent_between(before.tcp, after.tcp, longest) if before.tcp and after.tcp else None
    unread = before.tcp_unread or after.tcp_unread
    return SentBytes(rdma=rdma, net=net, tcp=tcp, connections=connections, unread=unread)


def _port_sent_between(
    before: Mapping[str, int], after: Mapping[str, int], below: InterfaceReading | None
) -> PortSentBytes | None:
    """Return the bytes that a port sent, from its most exact counter."""
    for name in RDMA_COUNTERS:
        if name not in before or name not in after:
            continue
        growth = growth_between(before[name], after[name])
        if name == PACKETS:
            largest = path_mtu(below.mtu) if below else LARGEST_PATH_MTU
            return PortSentBytes(
                payload=growth.times(0, largest), frames=growth.times(LEAST_FRAME, largest + MOST_HEADERS)
            )
        size = WORD_BYTES if name == WORDS else 1
        return PortSentBytes(payload=growth.times(size, size))
    return None


def path_mtu(mtu: int) -> int:
    """Return the largest payload of a Soft-RoCE packet over an interface of this MTU: a power of two."""
    room = min(max(mtu - SOFT_ROCE_HEADERS, 256), LARGEST_PATH_MTU)
    return 1 << (room.bit_length() - 1)
