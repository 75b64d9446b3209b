"""How the gradients travelled, proven from the counters of cards and interfaces: over RDMA, over TCP, or it is unknown.

What had to leave a node is bounded from both sides. RDMA carried no more of it than the RDMA counters moved, and TCP no
more than the connections of the ranks sent; what TCP cannot have carried was carried by RDMA. Where the kernel does not
count by connection, TCP carried no more than the interfaces of the rails and all TCP segments of the node together
allow. Where the two bounds lie far apart, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from railbed.model.cluster import Port
from railbed.model.span import Span
from railbed.train.network.sent_bytes import PortSentBytes, SentBytes
from railbed.train.network.tcp import TcpSentBytes

MOST_OF_IT, HARDLY_ANY = 0.9, 0.1
"""Shares from which on gradients count as carried by RDMA, and up to which they count as not."""
Carrier = Literal["rdma", "tcp", "elsewhere", "both", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RailBytes:
    """What one rail of a node carried."""

    rail: str
    netdev: str
    rdma_port: str = ""
    """`device/port`; empty if the cluster file has none."""
    rdma: Span | None
    """None if the card does not count what it sends."""
    tcp: Span
    """What the ranks sent over TCP; all that the interface sent and was not RDMA where connections are not counted."""
    other_tcp: int | None = None
    """What other programs sent over TCP; None if connections are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraffic:
    """What one node sent while it reduced gradients together with others."""

    node: str
    gradients: int
    """Bytes of gradients, as they are on the wire: at least so much has to leave a node in every kind of all-reduce."""
    hook: int
    """Bytes that the hook of its ranks sent, to ranks on the same node, too."""
    rails: tuple[RailBytes, ...]
    elsewhere: Mapping[str, Span]
    """All that interfaces sent which are on no rail."""
    tcp_most: int | None
    """The most that TCP can have sent on all rails together."""
    away: Mapping[str, int] | None = None
    """What the ranks sent over TCP by interfaces on no rail; None if connections are not counted."""
    unread: str = ""
    """Why connections are not counted."""

    @property
    def rdma(self) -> Span | None:
        """Return what all rails sent over RDMA; None if a card does not count."""
        spans = [rail.rdma for rail in self.rails]
        return None if None in spans else sum((span for span in spans if span), Span.exactly(0))

    @property
    def tcp(self) -> Span:
        """Return what the ranks sent over TCP on all rails; where connections are not counted, all but RDMA."""
        return sum((rail.tcp for rail in self.rails), Span.exactly(0)).at_most(self.tcp_most)

    @property
    def share(self) -> tuple[float, float]:
        """Return the least and the most of the gradients, as shares, that RDMA can have carried."""
        tcp, rdma = self.tcp.most, self.rdma
        away = sum((self.away or {}).values())
        least = 0.0 if tcp is None else max(0.0, 1 - (tcp + away) / self.gradients)
        most = 1.0 if rdma is None or rdma.most is None else min(1.0, rdma.most / self.gradients)
        return least, most

    @property
    def carrier(self) -> Carrier:
        """Say how the gradients left this node."""
        least, most = self.share
        if self.rdma is None:
            return "unknown"
        if least >= MOST_OF_IT and most >= MOST_OF_IT:
            return "rdma"
        if most <= HARDLY_ANY:
            # The rails must have carried it then; if they did not, another interface did, or nobody knows.
            if self.tcp.most is None or self.tcp.most >= MOST_OF_IT * self.gradients:
                return "tcp"
            return "elsewhere" if self.other_interface else "unknown"
        return "both" if self._partly_tcp(least, most) else "unknown"

    def _partly_tcp(self, least: float, most: float) -> bool:
        """Say whether TCP carried gradients, whatever RDMA did at the same time."""
        if self.away is not None and self.tcp.least >= MOST_OF_IT * self.gradients:
            return True  # the ranks have nothing else of that size to send
        return self.tcp.least >= HARDLY_ANY * self.gradients and least <= most < MOST_OF_IT

    @property
    def other_interface(self) -> str:
        """Return an interface on no rail that sent as much as the gradients; the loopback is none."""
        counted = self.away if self.away is not None else {name: span.least for name, span in self.elsewhere.items()}
        return next((name for name, sent in counted.items() if sent >= MOST_OF_IT * self.gradients), "")


def node_traffic(node: str, ports: Sequence[Port], sent_bytes: SentBytes, *, gradients: int, hook: int) -> NodeTraffic:
    """Sort what left a node by its rails."""
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


def _tcp_of_ranks(counted: TcpSentBytes, interfaces: Collection[str]) -> Span:
    """Return what the ranks sent over interfaces together; what is unclear counts once."""
    return Span.exactly(sum(counted.ranks.get(name, 0) for name in interfaces)) + counted.unclear


def _rail(port: Port, sent_bytes: SentBytes) -> RailBytes:
    name = f"{port.rdma}/{port.rdma_port}" if port.rdma else ""
    sent = sent_bytes.net.get(port.netdev, Span(0, None))
    # No RDMA device is no RDMA: that is known, and not a counter that is missing.
    own = sent_bytes.rdma[name] if name in sent_bytes.rdma else PortSentBytes(payload=Span.exactly(0))
    rdma, tcp = None, sent
    if own:
        least = 0 if own.frames.most is None else max(0, sent.least - own.frames.most)
        tcp = Span(least, None if sent.most is None else max(0, sent.most - own.frames.least))
        rdma = own.payload.at_most(sent.most) if own.frames.least else own.payload
    others = None
    if sent_bytes.connections:
        counted = _tcp_of_ranks(sent_bytes.connections, [port.netdev])
        # What is unclear is no more than the interface sent; what the ranks sent is known without it.
        tcp = counted.at_most(None if tcp.most is None else max(tcp.most, counted.least))
        others = sent_bytes.connections.others.get(port.netdev, 0)
    return RailBytes(rail=port.rail, netdev=port.netdev, rdma_port=name, rdma=rdma, tcp=tcp, other_tcp=others)
