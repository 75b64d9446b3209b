"""The proof as a finding: which share of the gradients crossed RDMA, and if they did not, why, and what to do.

It is proven from the counters of cards and interfaces: over RDMA, over TCP, or it is unknown.

The bytes that had to leave a node are bounded from both sides. RDMA carried at most the bytes of the RDMA counters, and
TCP at most the bytes that the connections of the ranks sent; what TCP cannot have carried was carried by RDMA. If the
kernel does not count by connection, TCP carried at most what the interfaces of the rails and all TCP segments of the
node together allow. If the two bounds are far apart, the result is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from railbed.launch.fabric import NodeFabric
from railbed.model.cluster import Port
from railbed.model.record import Finding, Verdict
from railbed.model.statistics import Range
from railbed.model.text import size
from railbed.train.network.tcp import PortSentBytes, SentBytes, TcpSentBytes

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
    # An HCA without an interface carries no TCP.
    sent = Range.exactly(0) if port.is_hca else sent_bytes.net.get(port.netdev, Range(0, None))
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


CHECK = "gradients_over_rdma"
EXPECTED = "gradients over RDMA"
WHY = (
    "TCP uses the cores that training needs and bypasses the lossless queue; engines fall back to it silently if "
    "RDMA does not work."
)


class Cause(NamedTuple):
    """The reason, and what to do about it."""

    because: str
    do: str


def finding(
    traffic: Sequence[NodeTraffic], transport: str, fabric: Mapping[str, NodeFabric], *, demanded: bool
) -> Finding:
    """Judge how the gradients left all nodes; `demanded` means that anything but RDMA is a failure."""
    carriers = {entry.carrier for entry in traffic}
    wrong = Verdict.FAIL if demanded else Verdict.WARN
    if carriers == {"rdma"}:
        verdict, observed, remedy = Verdict.OK, _over_rdma(traffic), ""
    elif "unknown" in carriers:
        verdict, (observed, remedy) = Verdict.UNKNOWN, _not_known(traffic)
    else:
        verdict, (observed, remedy) = wrong, _over_tcp(traffic, transport, fabric)
    return Finding(
        check=CHECK,
        subject="cluster",
        verdict=verdict,
        expected=EXPECTED,
        observed=observed,
        why=WHY,
        remedy=remedy,
        evidence="\n".join(line for entry in traffic for line in _evidence(entry)),
    )


def in_short(traffic: Sequence[NodeTraffic]) -> str:
    """Return the verdict in three words, for a short line."""
    carriers = {entry.carrier for entry in traffic}
    if carriers == {"rdma"}:
        return f"{_percent(_least(traffic))} RoCE"
    if "unknown" in carriers:
        return "path unknown"
    return "over TCP" if carriers <= {"tcp", "elsewhere"} else "partly over TCP"


def _over_rdma(traffic: Sequence[NodeTraffic]) -> str:
    least, total = _least(traffic), sum(entry.gradients for entry in traffic)
    where = _where([entry.node for entry in traffic])
    rest = f"{_percent(1 - least)} over TCP at most, including control"
    return f"{_percent(least)} of {size(total)} of gradients crossed RoCE on {where}; {rest}"


def _over_tcp(traffic: Sequence[NodeTraffic], transport: str, fabric: Mapping[str, NodeFabric]) -> tuple[str, str]:
    bad = [entry for entry in traffic if entry.carrier != "rdma"]
    total = size(sum(entry.gradients for entry in bad))
    partly = any(entry.carrier == "both" for entry in bad)
    cause = _cause(bad, transport, fabric)
    where = _where([entry.node for entry in bad], of=len(traffic))
    words = "gradients went partly over TCP" if partly else "gradients went over TCP"
    return f"{words}: {total} on {where}, because {cause.because}", cause.do


def _cause(bad: Sequence[NodeTraffic], transport: str, fabric: Mapping[str, NodeFabric]) -> Cause:
    for entry in bad:
        node = fabric.get(entry.node)
        if node and node.obstacle:
            return Cause(f"{entry.node} has no RDMA: {node.obstacle}", node.remedy or "`railbed check` has the details")
    if transport == "gloo":
        return Cause("gloo supports only TCP", "`railbed train --transport mpi`, or nccl for GPUs")
    away = next((entry for entry in bad if entry.carrier == "elsewhere"), None)
    if away:
        because = f"{transport} used {away.other_interface} of {away.node}, which is on no rail"
        return Cause(because, "`railbed train --show-env` shows which interfaces it may use")
    do = (
        "NCCL_DEBUG=INFO or UCX_LOG_LEVEL=info in the environment of the nodes: then the ranks' logs contain the reason"
    )
    return Cause(f"{transport} used sockets although RDMA is available", do)


def _not_known(traffic: Sequence[NodeTraffic]) -> tuple[str, str]:
    entry = next(entry for entry in traffic if entry.carrier == "unknown")
    blind = next((rail for rail in entry.rails if rail.rdma is None), None)
    if blind:
        why = f"{blind.rdma_port} of {entry.node} does not count the bytes it sends"
        return f"it is unknown what carried the gradients: {why}", "`railbed capture` shows the packets themselves"
    least, most = entry.share
    if least > most:
        why = f"neither RDMA nor TCP on the rails of {entry.node} moved by {size(entry.gradients)}"
        return (
            f"it is unknown what carried the gradients: {why}",
            "`railbed check rdma_device` looks for another device",
        )
    why = f"RDMA moved {bounds(entry.rdma)} and TCP {bounds(entry.tcp)} on {entry.node} at the same time"
    if entry.unread:
        why += f", and {entry.unread}"
    return (
        f"it is unknown what carried {size(entry.gradients)} of gradients: {why}",
        "prove it while nothing else uses the rails",
    )


def _evidence(entry: NodeTraffic) -> list[str]:
    lines = [f"{entry.node}: {size(entry.gradients)} of gradients, {size(entry.hook)} sent by the hook"]
    for rail in entry.rails:
        device = f" {rail.rdma_port}" if rail.rdma_port else " no device"
        line = f"{entry.node}/{rail.netdev} ({rail.rail}): RDMA{device} {bounds(rail.rdma)}, TCP {bounds(rail.tcp)}"
        others = f", other programs' TCP {size(rail.other_tcp)}" if rail.other_tcp else ""
        lines.append(line + others)
    for name, span in entry.elsewhere.items():
        ranks = f", TCP of the ranks {size(entry.away.get(name, 0))}" if entry.away is not None else ""
        lines.append(f"{entry.node}/{name} (on no rail): {bounds(span)}{ranks}")
    if entry.unread:
        lines.append(f"{entry.node}: TCP is not counted by connection: {entry.unread}")
    return lines


def bounds(span: Range | None) -> str:
    """Return a span of bytes as text."""
    if span is None:
        return "not counted"
    if span.most is None:
        return f"{size(span.least)} or more"
    if size(span.least) == size(span.most):
        return size(span.most)
    return f"{size(span.least)} to {size(span.most)}"


def _least(traffic: Sequence[NodeTraffic]) -> float:
    return min(entry.share[0] for entry in traffic)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _where(nodes: Sequence[str], of: int | None = None) -> str:
    if of is not None and len(nodes) < of:
        return " and ".join(nodes)
    return "both nodes" if len(nodes) == 2 else f"all {len(nodes)} nodes" if len(nodes) > 2 else nodes[0]
