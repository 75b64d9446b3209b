"""What the monitoring of a cluster depends on, from its cluster file."""

from __future__ import annotations

from dataclasses import dataclass

from railbed.model.cluster import Cluster
from railbed.model.meters import METERS, SeriesKey
from railbed.web.metrics.names import METRICS, MetricLabels

JOB = "railbed"
BYTES_PER_GIGABIT = 125_000_000


@dataclass(frozen=True, slots=True)
class SitePort:
    """A port of a node or a switch."""

    site: MonitoredCluster
    device: str
    name: str
    rail: str

    def series(self, meter: str, part: str = "") -> str:
        """Return the identity of a series of this port."""
        return self.site.series(meter, device=self.device, port=self.name, part=part)

    def labels(self, **more: str) -> dict[str, str]:
        """Return the labels of an alert about this port."""
        series = SeriesKey(self.device, "net_rx_bytes", self.name)
        return {"cluster": self.site.name, **MetricLabels(self.site.cluster).of(series), **more}


@dataclass(frozen=True, slots=True)
class MonitoredCluster:
    """A cluster, as rules and dashboards need it."""

    cluster: Cluster

    @property
    def name(self) -> str:
        """The name of the cluster: the label `cluster` of everything that its exporter reports."""
        return self.cluster.name

    @property
    def priority(self) -> str:
        """The lossless priority."""
        return str(self.cluster.policy.priority)

    @property
    def queue(self) -> str:
        """The lossless queue of a switch: railbed configures the QoS group with the number of the priority."""
        return str(self.cluster.policy.priority)

    @property
    def other_priority(self) -> str:
        """A priority, or queue, that may drop packets."""
        return str((self.cluster.policy.priority + 1) % 8)

    @property
    def ports(self) -> list[SitePort]:
        """Every port of a node that is on a rail."""
        return [SitePort(self, node, port.netdev, port.rail) for node, port in self.cluster.ports()]

    @property
    def rdma_ports(self) -> list[SitePort]:
        """Every port with RDMA."""
        return [SitePort(self, node, port.netdev, port.rail) for node, port in self.cluster.ports() if port.rdma]

    @property
    def switch_ports(self) -> list[SitePort]:
        """Every port with a node, of switches that can be logged in to."""
        rails = {(node, port.netdev): port.rail for node, port in self.cluster.ports()}
        return [
            SitePort(self, name, port.name, rails.get((port.node, port.netdev), ""))
            for name, switch in self.cluster.switches.items()
            if switch.host
            for port in switch.ports
        ]

    @property
    def rails(self) -> list[str]:
        """The rails that have a port."""
        used = {port.rail for _, port in self.cluster.ports()}
        return [rail for rail in self.cluster.rails if rail in used]

    def bytes_per_second(self, rail: str) -> float | None:
        """Return the speed of the links of a rail; None if the file does not have it."""
        speed = self.cluster.rails[rail].speed
        return None if speed is None else speed * BYTES_PER_GIGABIT

    def rdma_selection(self, rails: list[str]) -> dict[str, str]:
        """Return the labels that select the RDMA ports of some rails; ports without RDMA may be on the same rail."""
        selection = {"rail_matches": any_of(rails)}
        with_rdma = [port.device for port in self.rdma_ports if port.rail in rails]
        if len(with_rdma) < sum(port.rail in rails for port in self.ports):
            selection["node_matches"] = any_of(list(dict.fromkeys(with_rdma)))
        return selection

    def select(self, meter: str, **labels: str) -> str:
        """Return a query for a meter of this cluster; `rail_matches` is a regular expression for `rail`."""
        return self.select_metric(METRICS[meter].name, **labels)

    def select_metric(self, metric: str, **labels: str) -> str:
        """Return a query for a metric of this cluster."""
        parts = [f'cluster="{self.name}"', *(_matcher(name, value) for name, value in labels.items())]
        return f"{metric}{{{','.join(parts)}}}"

    def grew(self, meter: str, within: str = "5m", **labels: str) -> str:
        """Return a query for counters of this cluster that have grown lately."""
        return f"increase({self.select(meter, **labels)}[{within}]) > 0"

    def series(self, meter: str, *, device: str, port: str = "", part: str = "") -> str:
        """Return the identity of a series exactly as the exporter reports it."""
        labels = MetricLabels(self.cluster).of(SeriesKey(device, meter, port if METERS[meter].per_port else "", part))
        return self.select(meter, **labels)


def _matcher(name: str, value: str) -> str:
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    stem = name.removesuffix("_matches")
    return f'{name}="{text}"' if stem == name else f'{stem}=~"{text}"'


def any_of(names: list[str]) -> str:
    """Return a regular expression that matches exactly these names."""
    return "|".join(name.replace(".", r"\.") for name in names)
