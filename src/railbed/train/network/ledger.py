"""Totals of a run over all generations: bytes that the hooks sent, and bytes that the counters of the nodes show.

The first rank of a node reports its counters when the steps begin, every few seconds, and when they end. The bytes of
each interval between two readings are added up together with the gradients of its steps. If a rank is killed, its
current interval is dropped from both totals; a node that rebooted begins with new counters.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railbed.launch.fabric import NodeFabric
from railbed.launch.messages import Message
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Finding, Measurement, Record
from railbed.model.statistics import Range
from railbed.train.network.tcp import CounterReading, SentBytes, sent_between
from railbed.train.network.verdict import NodeTraffic, finding, in_short, node_traffic

RDMA_ENGINES = ("nccl", "mpi")
"""Requesting one of these by name, on a cluster with RDMA, means that TCP is a failure."""


@dataclass(slots=True)
class _NodeLedger:
    """The totals of one node."""

    reporter: int = -1
    """The rank that reports the counters; all ranks reduce the same gradients, so only its bytes count."""
    since: CounterReading | None = None
    """The counters at the beginning of the current interval."""
    steps_bytes: int = 0
    """Gradients of the current interval."""
    gradients: int = 0
    hook: int = 0
    sent_bytes: SentBytes | None = None
    fresh: bool = False
    """Reported since the last progress event."""


class Ledger:
    """The totals of one run."""

    def __init__(self, cluster: Cluster, fabric: Mapping[str, NodeFabric], *, demanded: bool) -> None:
        self._cluster = cluster
        self._fabric = fabric
        self._demanded = demanded
        self._accounts: dict[str, _NodeLedger] = {}
        self._members: Sequence[str] = ()
        self._transport = ""

    def generation(self, nodes: Sequence[str]) -> None:
        """Begin a generation: current intervals are dropped."""
        self._members = nodes
        for account in self._accounts.values():
            account.since = None

    def receive(self, node: str, rank: int, message: Message) -> list[Record]:
        """Add a message of a rank; return the records that follow from it."""
        if len(self._members) < 2:
            return []
        account = self._accounts.setdefault(node, _NodeLedger())
        match message:
            case {"kind": "progress", "bytes_sent": int(sent), "bytes_reduced": int(reduced)}:
                account.hook += sent
                account.steps_bytes += reduced if rank == account.reporter else 0
            case {"kind": "counters", "rdma": dict(), "net": dict()}:
                self._transport = str(message.get("transport", self._transport))
                account.reporter = rank
                self._close(node, account, CounterReading.of(message), begin=bool(message.get("begin")))
                counters = {key: value for key, value in message.items() if key not in ("kind", "time")}
                record = events.parse("counters", subject=node, message="", data=counters, time=time.time())
                return [record, *self._progress_event()]
        return []

    def _close(self, node: str, account: _NodeLedger, reading: CounterReading, *, begin: bool) -> None:
        """End an interval and begin the next; `begin` starts the first."""
        if account.since is not None and not begin:
            stretch = sent_between(account.since, reading, self._netdevs(node))
            account.sent_bytes = account.sent_bytes + stretch if account.sent_bytes else stretch
            account.gradients += account.steps_bytes
            account.fresh = True
        account.since, account.steps_bytes = reading, 0

    def _netdevs(self, node: str) -> dict[str, str]:
        return {
            f"{port.rdma}/{port.rdma_port}": port.netdev for port in self._cluster.nodes[node].rdma_ports if port.rdma
        }

    def _progress_event(self) -> list[Record]:
        """Return the verdict so far as an event, once every node has reported new counters."""
        accounts = [self._accounts.get(node) for node in self._members]
        judged = self.finding()
        if judged is None or not all(account and account.fresh for account in accounts):
            return []
        for account in accounts:
            if account:
                account.fresh = False
        traffic = self._traffic()
        return [
            events.GradientPath(
                subject="cluster",
                message=judged.observed,
                verdict=judged.verdict,
                short=in_short(traffic),
                transport=self._transport,
                remedy=judged.remedy,
                nodes=[_gradients(node) for node in traffic],
            )
        ]

    def _traffic(self) -> list[NodeTraffic]:
        return [
            node_traffic(name, node.rdma_ports, account.sent_bytes, gradients=account.gradients, hook=account.hook)
            for name, node in self._cluster.nodes.items()
            if (account := self._accounts.get(name)) and account.sent_bytes and account.gradients
        ]

    def finding(self) -> Finding | None:
        """Return the verdict so far; None if no gradients crossed between nodes."""
        traffic = self._traffic()
        return finding(traffic, self._transport, self._fabric, demanded=self._demanded) if traffic else None

    def closing(self) -> list[Record]:
        """Return the numbers and the verdict of the whole run."""
        judged = self.finding()
        return (
            [*(measurement for node in self._traffic() for measurement in _measurements(node)), judged]
            if judged
            else []
        )


def must_be_rdma(cluster: Cluster, transport: str, *, proves: bool) -> bool:
    """Whether anything but RDMA is a failure: RDMA was requested or is to be proven, and every node has it."""
    everywhere = all(any(port.rdma for port in node.rdma_ports) for node in cluster.nodes.values())
    return everywhere and (proves or transport in RDMA_ENGINES)


def _gradients(traffic: NodeTraffic) -> events.NodeGradients:
    return events.NodeGradients(
        node=traffic.node,
        carrier=traffic.carrier,
        gradient_bytes=traffic.gradients,
        hook_bytes=traffic.hook,
        tcp_bytes_at_most=traffic.tcp.most,
        tcp_not_counted=traffic.unread,
        rails=[
            events.RailTraffic(
                rail=rail.rail,
                netdev=rail.netdev,
                rdma_port=rail.rdma_port,
                rdma_bytes=(rail.rdma.least, rail.rdma.most) if rail.rdma else None,
                tcp_bytes=(rail.tcp.least, rail.tcp.most),
                other_tcp_bytes=rail.other_tcp,
            )
            for rail in traffic.rails
        ],
        elsewhere_bytes={name: span.least for name, span in traffic.elsewhere.items()},
        elsewhere_tcp_bytes=traffic.away,
    )


def _measurements(traffic: NodeTraffic) -> list[Measurement]:
    def bounds(name: str, span: Range | None, rail: str) -> list[Measurement]:
        ends = {"least": span.least, "most": span.most} if span else {}
        return [
            Measurement(
                name=name, value=value, unit="byte", labels={"node": traffic.node, "rail": rail, "bound": bound}
            )
            for bound, value in ends.items()
            if value is not None
        ]

    sent = Measurement(name="gradient_bytes", value=traffic.gradients, unit="byte", labels={"node": traffic.node})
    of_rails = [
        measured
        for rail in traffic.rails
        for measured in (*bounds("rdma_bytes", rail.rdma, rail.rail), *bounds("tcp_bytes", rail.tcp, rail.rail))
    ]
    return [sent, *of_rails]
