"""How the gradients travelled, proven from the counters of cards and interfaces: over RDMA, over TCP, or it is unknown.

The bytes that had to leave a node are bounded from both sides. RDMA carried at most the bytes of the RDMA counters, and
TCP at most the bytes that the connections of the ranks sent; what TCP cannot have carried was carried by RDMA. If the
kernel does not count by connection, TCP carried at most what the interfaces of the rails and all TCP segments of the
node together allow. If the two bounds are far apart, the result is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from railbed.model.cluster import Port
from railbed.model.span import Range
from railbed.train.network.sent_bytes import PortSentBytes, SentBytes
from railbed.train.network.tcp import TcpSentBytes

MOST_OF_IT, HARDLY_ANY = 0.9, 0.1
"""From the first share on, gradients count as carried by RDMA; up to the second, as not."""
Carrier = Literal["rdma", "tcp", "elsewhere", "both", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RailBytes:
    """Bytes that one rail of a node sent."""

    rail: str
    netdev: str
    rdma_port: str = ""
    """`device/port`; empty if the cluster file has none."""
    rdma: Range | None
    """None if the card does not count what it sends."""
    tcp: Range
    """Bytes of the ranks over TCP; without counters by connection, all bytes of the interface except RDMA."""
    other_tcp: int | None = None
    """Bytes of other programs over TCP; None if connections are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraffic:
    """Bytes that one node sent while it reduced gradients together with others."""

    node: str
    gradients: int
    """Bytes of gradients on the wire: every kind of all-reduce has to send at least this much from a node."""
    hook: int
    """Bytes that the hook of its ranks sent, including to ranks on the same node."""
    rails: tuple[RailBytes, ...]
    elsewhere: Mapping[str, Range]
    """All bytes of interfaces that are on no rail."""
    tcp_most: int | None
    """The upper bound of TCP on all rails together."""
    away: Mapping[str, int] | None = None
    """Bytes of the ranks over TCP on interfaces that are on no rail; None if connections are not counted."""
    unread: str = ""
    """Why connections are not counted."""

    @property
    def rdma(self) -> Range | None:
        """Return the bytes of all rails over RDMA; None if a card does not count."""
        spans = [rail.rdma for rail in self.rails]
        return None if None in spans else sum((span for span in spans if span), Range.exactly(0))

    @property
    def tcp(self) -> Range:
        """Return the bytes of the ranks over TCP on all rails; if connections are not counted, all bytes but RDMA."""
        return sum((rail.tcp for rail in self.rails), Range.exactly(0)).at_most(self.tcp_most)

    @property
    def share(self) -> tuple[float, float]:
        """Return the bounds of the share of the gradients that RDMA carried."""
        tcp, rdma = self.tcp.most, self.rdma
        away = sum((self.away or {}).values())
        least = 0.0 if tcp is None else max(0.0, 1 - (tcp + away) / self.gradients)
        most = 1.0 if rdma is None or rdma.most is None else min(1.0, rdma.most / self.gradients)
        return least, most

    @property
    def carrier(self) -> Carrier:
        """What carried the gradients from this node."""
        least, most = self.share
        if self.rdma is None:
            return "unknown"
        if least >= MOST_OF_IT and most >= MOST_OF_IT:
            return "rdma"
        if most <= HARDLY_ANY:
            # Then the rails must have carried it; otherwise another interface did, or it is unknown.
            if self.tcp.most is None or self.tcp.most >= MOST_OF_IT * self.gradients:
                return "tcp"
            return "elsewhere" if self.other_interface else "unknown"
        return "both" if self._partly_tcp(least, most) else "unknown"

    def _partly_tcp(self, least: float, most: float) -> bool:
        """Whether TCP carried gradients, possibly in addition to RDMA."""
        if self.away is not None and self.tcp.least >= MOST_OF_IT * self.gradients:
            return True  # the ranks send nothing else of that size
        return self.tcp.least >= HARDLY_ANY * self.gradients and least <= most < MOST_OF_IT

    @property
    def other_interface(self) -> str:
        """Return an interface on no rail that sent as much as the gradients, other than loopback."""
        counted = self.away if self.away is not None else {name: span.least for name, span in self.elsewhere.items()}
        return next((name for name, sent in counted.items() if sent >= MOST_OF_IT * self.gradients), "")


def node_traffic(node: str, ports: Sequence[Port], sent_bytes: SentBytes, *, gradients: int, hook: int) -> NodeTraffic:
    """Attribute the bytes that left a node to its rails."""
    on_rails = {port.netdev for port in ports}
    counted = sent_bytes.connections
    return NodeTraffic(
        node=node,
        gradients=gradients,
        hook=hook,
        rails=tuple(_rail(port, sent_bytes) for port in ports),
        elsewhere={name: span for name, span in sent_bytes.net.items() if name not in on_rails and name != "lo"},
        tcp_most=_tcp_of_ranks(counted, on_rails).most if counted else sent_bytes.tcp.most,
        away={name: sent for name, sent in counted.ranks.items() if name not in on_rails} if counted else None,
        unread=sent_bytes.unread,
    )


def _tcp_of_ranks(counted: TcpSentBytes, interfaces: Collection[str]) -> Range:
    """Return the bytes of the ranks over several interfaces; unclear bytes count once."""
    return Range.exactly(sum(counted.ranks.get(name, 0) for name in interfaces)) + counted.unclear


def _rail(port: Port, sent_bytes: SentBytes) -> RailBytes:
    name = f"{port.rdma}/{port.rdma_port}" if port.rdma else ""
    sent = sent_bytes.net.get(port.netdev, Range(0, None))
    # Without an RDMA device there is no RDMA: that is known, unlike a missing counter.
    own = sent_bytes.rdma[name] if name in sent_bytes.rdma else PortSentBytes(payload=Range.exactly(0))
    rdma, tcp = None, sent
    if own:
        least = 0 if own.frames.most is None else max(0, sent.least - own.frames.most)
        tcp = Range(least, None if sent.most is None else max(0, sent.most - own.frames.least))
        rdma = own.payload.at_most(sent.most) if own.frames.least else own.payload
    others = None
    if sent_bytes.connections:
        counted = _tcp_of_ranks(sent_bytes.connections, [port.netdev])
        # Unclear bytes are at most the interface's total; the bytes of the ranks are known without them.
        tcp = counted.at_most(None if tcp.most is None else max(tcp.most, counted.least))
        others = sent_bytes.connections.others.get(port.netdev, 0)
    return RailBytes(rail=port.rail, netdev=port.netdev, rdma_port=name, rdma=rdma, tcp=tcp, other_tcp=others)
