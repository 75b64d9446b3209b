"""Facts about the ports before measuring: devices, GIDs, speeds, PCIe, GPUs, TCP ports in use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from railbed.bench.outliers import PathLimit
from railbed.bench.tool import End
from railbed.fleet import Fleet, choose_targets, survey
from railbed.launch.rdma import Obstacle, RdmaPath, rdma_port, roce_versions
from railbed.model import events
from railbed.model.cabling import far_end
from railbed.model.cluster import Cluster, Port
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Event
from railbed.model.text import plural
from railbed.parsing.gids import RoceVersion
from railbed.probes import ethtool, gpu, gpu_topology, infiniband, ip_addr, ip_link, limits, listening, pcie
from railbed.probes.infiniband import RdmaDevice

PROBES: tuple[Probe[Any], ...] = (
    infiniband.PROBE,
    pcie.PROBE,
    ethtool.PROBE,
    ip_link.PROBE,
    ip_addr.PROBE,
    listening.PROBE,
    limits.PROBE,
    gpu.PROBE,
    gpu_topology.PROBE,
)
START_SHARE = 0.5
"""Starting a tool at both ends takes an emulated node about half as long as being read: measured with 8 probes."""
NEAR = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""How a GPU and a card are connected, from near to far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSite:
    """A port and the facts about it."""

    end: End
    limits: tuple[PathLimit, ...] = ()
    """What limits a transfer over it; empty if unknown."""
    no_limit: str = ""
    """Why the limits are unknown."""
    no_rdma: str = ""
    """Why RDMA cannot be measured over it; empty if it can."""
    driver: str | None = None
    cable: str = ""
    """The other end of its cable, if the cluster file has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSite:
    """The cluster, with the facts that measuring needs."""

    cluster: Cluster
    ports: tuple[PortSite, ...]
    failed: Mapping[str, str]
    """Nodes that did not answer, and why."""
    used: Mapping[str, frozenset[int]]
    """TCP ports in use, by node."""
    gpus: Mapping[str, int]
    """Number of GPUs, by node."""
    read_seconds: float = 0.0
    """How long it took to read the node that answered first."""

    @property
    def start_seconds(self) -> float:
        """Return how long the nodes take to start a program, if they are slow: nodes with Soft-RoCE may be emulated."""
        return START_SHARE * self.read_seconds if any(port.end.soft for port in self.ports) else 0.0

    def on(self, rail: str) -> list[PortSite]:
        """Return the first port of every node on a rail, in the order of the cluster file."""
        ports: dict[str, PortSite] = {}
        for port in self.ports:
            if port.end.rail == rail:
                ports.setdefault(port.end.node, port)
        return list(ports.values())

    def port_on_rail(self, node: str | int, rail: str | int) -> PortSite:
        """Return the port that a node has on a rail."""
        return next(port for port in self.on(str(rail)) if port.end.node == node)

    def port(self, end: End) -> PortSite:
        """Return a port by its end."""
        return next(port for port in self.ports if port.end == end)


async def read_site(cluster: Cluster, fleet: Fleet, facts: dict[str, DeviceFacts]) -> AsyncGenerator[Event, None]:
    """Read the facts that measuring needs into `facts`, by node."""
    names = [target.name for target in choose_targets(fleet, PROBES)]
    yield events.ReadingStarted(message=f"reading {plural(len(names), 'node')}", devices=len(names), names=names)
    async with aclosing(survey(fleet, cluster, PROBES)) as answers:
        async for answer in answers:
            facts[answer.device] = answer
            message = answer.failure.reason if answer.failure else plural(len(answer.readings), "probe")
            yield events.DeviceRead(subject=answer.device, message=message, ok=answer.failure is None)


def site_of(cluster: Cluster, facts: Mapping[str, DeviceFacts], read_seconds: float = 0.0) -> BenchSite:
    """Combine the cluster file with the facts of the nodes."""
    versions = roce_versions(cluster, facts)
    return BenchSite(
        cluster=cluster,
        ports=tuple(_port(cluster, node, port, facts.get(node), versions[port.rail]) for node, port in cluster.ports()),
        failed={
            node: answer.failure.reason if (answer := facts.get(node)) and answer.failure else "it was not read"
            for node in cluster.nodes
            if node not in facts or facts[node].failure
        },
        used={node: _used_ports(answer) for node, answer in facts.items()},
        gpus={node: _gpu_count(answer) for node, answer in facts.items()},
        read_seconds=read_seconds,
    )


def _port(cluster: Cluster, node: str, port: Port, facts: DeviceFacts | None, version: RoceVersion) -> PortSite:
    device = _device(port, facts)
    rdma = rdma_port(port, facts, version)
    limits, no_limit = _limits(cluster, node, port, facts, device)
    end = End(
        node=node,
        rail=port.rail,
        netdev=port.netdev,
        address=str(port.address),
        rdma=port.rdma,
        rdma_port=port.rdma_port,
        gid_index=rdma.gid if isinstance(rdma, RdmaPath) else None,
        roce_v1=version == 1,
        gpu=_nearest_gpu(port, facts),
        soft=bool(device and device.parent),
    )
    return PortSite(
        end=end,
        limits=limits,
        no_limit=no_limit,
        no_rdma=rdma.why if isinstance(rdma, Obstacle) else "",
        driver=device.driver if device else None,
        cable=far_end(cluster, node, port),
    )


def _device(port: Port, facts: DeviceFacts | None) -> RdmaDevice | None:
    reading = facts.read(infiniband.PROBE) if facts else None
    return reading.facts.devices.get(port.rdma or "") if isinstance(reading, Known) else None


def _limits(
    cluster: Cluster, node: str, port: Port, facts: DeviceFacts | None, device: RdmaDevice | None
) -> tuple[tuple[PathLimit, ...], str]:
    speed, reason = _link_speed(cluster, port, facts, device)
    if speed is None:
        return (), reason
    link = PathLimit(part=f"the link of {node}/{port.netdev}", gbps=speed)
    reading = facts.read(pcie.PROBE) if facts else None
    cards = reading.facts.cards.values() if isinstance(reading, Known) else ()
    card = next((card for card in cards if port.netdev in card.netdevs or (port.rdma and port.rdma in card.rdma)), None)
    if card is None or card.speed_gts is None or card.width is None or card.virtual_function:
        return (link,), ""
    carried = pcie.carried_gbps(card.speed_gts, card.width)
    return (
        link,
        PathLimit(part=f"PCIe {card.speed_gts:g} GT/s x{card.width} of {node}/{port.netdev}", gbps=carried),
    ), ""


def _link_speed(
    cluster: Cluster, port: Port, facts: DeviceFacts | None, device: RdmaDevice | None
) -> tuple[float | None, str]:
    """Return the speed the card reports, or else the one in the file; a virtual link reports arbitrary values."""
    own = device.ports.get(str(port.rdma_port)) if device else None
    stated = cluster.rails[port.rail].speed
    links = facts.read(ip_link.PROBE) if facts else None
    link = links.facts.links.get(port.netdev) if isinstance(links, Known) else None
    if (link and link.kind) or (device and device.parent):
        return stated, f"{port.netdev} is virtual and has no speed: set `speed` on its rail"
    settings = facts.read(ethtool.PROBE) if facts else None
    ethernet = settings.facts.interfaces.get(port.netdev) if isinstance(settings, Known) else None
    if ethernet and ethernet.speed_mbps:
        return ethernet.speed_mbps / 1000, ""
    if own and own.rate_gbps:
        return own.rate_gbps, ""
    return stated, f"{port.netdev} does not report its speed: set `speed` on its rail"


def _nearest_gpu(port: Port, facts: DeviceFacts | None) -> int | None:
    if not facts or not _gpu_count(facts):
        return None
    reading = facts.read(gpu_topology.PROBE)
    near = reading.facts.gpus_of(port.rdma or "") if isinstance(reading, Known) else {}
    ranked = sorted(near, key=lambda name: (NEAR.index(near[name]) if near[name] in NEAR else len(NEAR), name))
    return int(ranked[0].removeprefix("GPU")) if ranked else 0


def _gpu_count(facts: DeviceFacts) -> int:
    reading = facts.read(gpu.PROBE)
    return len(reading.facts.gpus) if isinstance(reading, Known) else 0


def _used_ports(facts: DeviceFacts) -> frozenset[int]:
    reading = facts.read(listening.PROBE)
    return (
        frozenset(listener.port for listener in reading.facts.listeners) if isinstance(reading, Known) else frozenset()
    )
