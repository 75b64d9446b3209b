"""Traffic of other programs on the links that a training uses: how much, when, and with whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import Literal, NamedTuple

import numpy as np

from railbed.diagnose.shared.compare import at, smooth
from railbed.model.text import size
from railbed.rules.judgement import Span
from railbed.rules.rule import NotJudged
from railbed.rules.signal import Numbers, Signal
from railbed.rules.site import PortView, RailView

Direction = Literal["tx", "rx"]
DIRECTIONS: tuple[Direction, ...] = ("tx", "rx")
PROOF = "gradients_over_rdma"
SHARE = 0.2
"""Of what the port carries then, and of what the busiest port carries in the mean: less than that disturbs little."""
HEADERS = 1.1
"""Bytes on the interface for each byte of data in TCP connections, at most."""
LEAST_SECONDS = 3.0
MOST_PEERS = 3


class Foreign(NamedTuple):
    """A time in which other programs used a port."""

    port: PortView
    direction: Direction
    span: Span
    all: Signal
    """Their bytes per second."""
    in_tcp: Signal
    """Those in TCP connections, whose peers are known."""
    training: Signal
    net: Signal
    """All bytes of the interface."""

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.all.mean(self.span)

    @property
    def has_peers(self) -> bool:
        """Whether most of it is in TCP connections."""
        return self.in_tcp.mean(self.span) >= self.rate / 2

    @property
    def signals(self) -> tuple[Signal, Signal]:
        """Return the series that prove it."""
        return self.in_tcp if self.has_peers else self.net, self.training

    @property
    def peers(self) -> list[str]:
        """The nodes, or addresses of other machines, that most of it went to or came from."""
        signal = self.port.try_signal(f"tcp_foreign_{self.direction}_peer")
        values = signal.within(self.span.widen(signal.interval)) if signal else np.empty(0)
        addresses = [IPv4Address(int(value)) for value, _ in Counter(values).most_common(MOST_PEERS)]
        return [node_at(self.port, address) or str(address) for address in addresses]

    @property
    def programs(self) -> list[str]:
        """What was noticed about programs on this node, until then."""
        marks = [mark for mark in self.port.site.run.marks("traffic") if mark.subject == self.port.node.name]
        return [mark.text for mark in marks if self.span.start - 1 <= mark.time <= self.span.end + 1][:MOST_PEERS]


def foreign_on(port: PortView, direction: Direction, usual: float) -> list[Foreign]:
    """Return when other programs used much of a port; `usual` is what the busiest one of the rail carries."""
    if port.port.address.version != 4:
        raise NotJudged("the rail uses IPv6, whose connections are not counted")
    training, in_tcp = (port.signal(f"tcp_{whose}_{direction}_bytes") for whose in ("training", "foreign"))
    net = port.signal(f"net_{direction}_bytes")
    of_tcp = at(net.times, in_tcp)
    values = of_tcp + _without_tcp(port, direction, net, at(net.times, training) + of_tcp)
    foreign = Signal(in_tcp.series, in_tcp.meter, net.times, values)
    least = SHARE * np.maximum(usual, _sum_traffic(port, direction, net))
    much = (values >= least) & (smooth(values) >= SHARE * usual)
    spans = foreign.where(much, least=LEAST_SECONDS)
    return [Foreign(port, direction, span, foreign, in_tcp, training, net) for span in spans]


def _without_tcp(port: PortView, direction: Direction, net: Signal, in_tcp: Numbers) -> Numbers:
    """Return the bytes per second that are neither in TCP connections nor may be the training's RDMA."""
    rest: Numbers = np.maximum(0.0, net.values - HEADERS * in_tcp)
    hardware = port.try_signal(f"rdma_{direction}_bytes")
    if port.port.rdma is None or port.site.run.wrong(PROOF):  # then the training does not use RDMA
        return rest + np.nan_to_num(at(net.times, hardware)) if hardware else rest
    # The packets of Soft-RoCE, which counts no bytes, are part of the interface's.
    packets = port.try_signal(f"rdma_{direction}_packets")
    may_be_rdma = hardware is None and packets is not None and packets.peak() > 0
    return np.zeros(len(rest)) if may_be_rdma else rest


def usually_carried(rail: RailView) -> float:
    """Return what the busiest port carries in the mean while there is training, in bytes per second."""
    means = [0.0]
    for port in rail.ports:
        for direction in DIRECTIONS:
            net, training = (port.try_signal(f"{kind}_{direction}_bytes") for kind in ("net", "tcp_training"))
            if net and training:
                carried = _sum_traffic(port, direction, net)
                known = carried[np.isfinite(carried) & np.isfinite(at(net.times, training))]
                means.append(float(np.mean(known)) if len(known) else 0.0)
    return max(means)


def _sum_traffic(port: PortView, direction: Direction, net: Signal) -> Numbers:
    """Return all bytes per second of a port."""
    rdma = port.try_signal(f"rdma_{direction}_bytes")
    carried: Numbers = net.values + (np.nan_to_num(at(net.times, rdma)) if rdma else 0.0)
    return carried


def node_at(port: PortView, address: IPv4Address) -> str:
    """Return the node with an address on a rail; empty if it is another machine's."""
    return next((node.name for node in port.site.nodes for other in node.ports if other.port.address == address), "")


def describe_foreign(foreign: Foreign, receivers: Sequence[str] = ()) -> str:
    """Return what other programs sent or received, and what was left for the training.

    `receivers` are the nodes that received something at the same time whose sender is not known.
    """
    sends = foreign.direction == "tx"
    verb, preposition = ("sent", "to") if sends else ("received", "from")
    if foreign.has_peers and foreign.peers:
        whom = f" {preposition} {_join(foreign.peers)}"
    elif receivers:
        whom = f", apparently to {_join(receivers)}, without TCP connections (UDP or RDMA)"
    else:
        whom = f" without TCP connections (UDP or RDMA), so it is not known {preposition} whom"
    training, usual = foreign.training.mean(foreign.span), foreign.training.usual
    return (
        f"other programs {verb} {size(foreign.rate)}/s{whom}; the training {verb} {size(training)}/s, usually "
        f"{size(usual)}/s"
    )


def _join(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
