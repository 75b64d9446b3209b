"""How the gradients travelled, proven from the counters of cards and interfaces: over RDMA, over TCP, or it is unknown.

What had to leave a node is bounded from both sides. RDMA carried no more of it than the RDMA counters moved, and TCP no
more than TCP moved on the rails; what TCP cannot have carried was carried by RDMA. Where the two bounds lie far apart
(others use the card at the same time, or it does not count), nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from railbed.model.cluster import Port
from railbed.model.span import Span
from railbed.train.network.moved import Moved

MOST_OF_IT, HARDLY_ANY = 0.9, 0.1
"""Shares from which on gradients count as carried by RDMA, and up to which they count as not."""
Road = Literal["rdma", "tcp", "elsewhere", "both", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RailTraffic:
    """What one rail of a node carried."""

    rail: str
    netdev: str
    rdma_port: str = ""
    """`device/port`; empty where the cluster file has none."""
    rdma: Span | None
    """None where the card does not count what it sends."""
    tcp: Span
    """What the interface sent that was not RDMA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraffic:
    """What one node sent while it reduced gradients together with others."""

    node: str
    gradients: int
    """Bytes of gradients, as they are on the wire: at least so much has to leave a node in every kind of all-reduce."""
    hook: int
    """Bytes that the hook of its ranks sent, to ranks on the same node, too."""
    rails: tuple[RailTraffic, ...]
    elsewhere: Mapping[str, Span]
    """All that interfaces sent which are on no rail."""
    tcp_most: int | None
    """The most that TCP can have sent, over all interfaces, by the number of its segments."""

    @property
    def rdma(self) -> Span | None:
        """Return what all rails sent over RDMA; None where a card does not count."""
        spans = [rail.rdma for rail in self.rails]
        return None if None in spans else sum((span for span in spans if span), Span.exactly(0))

    @property
    def tcp(self) -> Span:
        """Return what all rails sent that was not RDMA."""
        return sum((rail.tcp for rail in self.rails), Span.exactly(0)).at_most(self.tcp_most)

    @property
    def share(self) -> tuple[float, float]:
        """Return the least and the most of the gradients, as shares, that RDMA can have carried."""
        tcp, rdma = self.tcp.most, self.rdma
        least = 0.0 if tcp is None else max(0.0, 1 - tcp / self.gradients)
        most = 1.0 if rdma is None or rdma.most is None else min(1.0, rdma.most / self.gradients)
        return least, most

    @property
    def road(self) -> Road:
        """Say how the gradients left this node."""
        least, most = self.share
        if self.rdma is None:
            return "unknown"
        if least >= MOST_OF_IT and most >= MOST_OF_IT:
            return "rdma"
        if most <= HARDLY_ANY:
            # The rails must have carried it then; if they did not, another interface did, or nobody knows.
            if least <= HARDLY_ANY:
                return "tcp"
            return "elsewhere" if self.other_interface else "unknown"
        moved_by_tcp = self.tcp.least >= HARDLY_ANY * self.gradients
        return "both" if moved_by_tcp and least <= most and most < MOST_OF_IT else "unknown"

    @property
    def other_interface(self) -> str:
        """Return an interface on no rail that sent as much as the gradients; the loopback is none."""
        return next((name for name, span in self.elsewhere.items() if span.least >= MOST_OF_IT * self.gradients), "")


def node_traffic(node: str, ports: Sequence[Port], moved: Moved, *, gradients: int, hook: int) -> NodeTraffic:
    """Sort what left a node by its rails."""
    on_rails = {port.netdev for port in ports}
    return NodeTraffic(
        node=node,
        gradients=gradients,
        hook=hook,
        rails=tuple(_rail(port, moved) for port in ports),
        elsewhere={name: span for name, span in moved.net.items() if name not in on_rails and name != "lo"},
        tcp_most=moved.tcp.most,
    )


def _rail(port: Port, moved: Moved) -> RailTraffic:
    name = f"{port.rdma}/{port.rdma_port}" if port.rdma else ""
    sent = moved.net.get(port.netdev, Span(0, None))
    if name not in moved.rdma:
        # No RDMA device is no RDMA: that is known, and not a counter that is missing.
        return RailTraffic(rail=port.rail, netdev=port.netdev, rdma_port=name, rdma=Span.exactly(0), tcp=sent)
    own = moved.rdma[name]
    if own is None:
        return RailTraffic(rail=port.rail, netdev=port.netdev, rdma_port=name, rdma=None, tcp=sent)
    least = 0 if own.frames.most is None else max(0, sent.least - own.frames.most)
    tcp = Span(least, None if sent.most is None else max(0, sent.most - own.frames.least))
    payload = own.payload.at_most(sent.most) if own.frames.least else own.payload
    return RailTraffic(rail=port.rail, netdev=port.netdev, rdma_port=name, rdma=payload, tcp=tcp)
