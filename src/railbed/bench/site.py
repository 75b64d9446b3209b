"""What is known of the ports before anything is measured: devices, GIDs, speeds, PCIe, GPUs, ports in use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from railbed.bench.judge.limits import PathLimit
from railbed.bench.tool import End
from railbed.fleet import Fleet, survey, surveyed
from railbed.model.cabling import far_end
from railbed.model.cluster import Cluster, Port
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.model.record import Event
from railbed.parsing.gids import rocev2_index
from railbed.probes import ethtool, gpu, gpu_topology, infiniband, ip_link, limits, listening, pcie
from railbed.probes.infiniband import RdmaDevice, RdmaPort

PROBES: tuple[Probe[Any], ...] = (
    infiniband.PROBE,
    pcie.PROBE,
    ethtool.PROBE,
    ip_link.PROBE,
    listening.PROBE,
    limits.PROBE,
    gpu.PROBE,
    gpu_topology.PROBE,
)
NEAR = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""How a GPU and a card are connected, from near to far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSite:
    """A port and what is known of it."""

    end: End
    limits: tuple[PathLimit, ...] = ()
    """What of it bounds a transfer; empty where nothing tells."""
    no_limit: str = ""
    """Why nothing tells."""
    no_rdma: str = ""
    """Why RDMA cannot be measured over it."""
    driver: str | None = None
    cable: str = ""
    """The other end of its cable, where the cluster file knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSite:
    """The cluster, as far as measuring needs it."""

    cluster: Cluster
    ports: tuple[PortSite, ...]
    failed: Mapping[str, str]
    """Nodes that did not answer, and why."""
    used: Mapping[str, frozenset[int]]
    """TCP ports that are in use, by node."""
    gpus: Mapping[str, int]
    """How many GPUs a node has."""

    def on(self, rail: str) -> list[PortSite]:
        """Return the first port of every node on a rail, in the order of the cluster file."""
        found: dict[str, PortSite] = {}
        for port in self.ports:
            if port.end.rail == rail:
                found.setdefault(port.end.node, port)
        return list(found.values())

    def port_on_rail(self, node: str | int, rail: str | int) -> PortSite:
        """Return the port that a node has on a rail."""
        return next(port for port in self.on(str(rail)) if port.end.node == node)

    def port(self, end: End) -> PortSite:
        """Return a port by its end."""
        return next(port for port in self.ports if port.end == end)


async def read_site(cluster: Cluster, fleet: Fleet, facts: dict[str, DeviceFacts]) -> AsyncGenerator[Event, None]:
    """Read what is to be known of the ports into `facts`."""
    names = [target.name for target in surveyed(fleet, PROBES)]
    yield Event(name="reading", message=f"reading {len(names)} nodes", data={"devices": len(names), "names": names})
    async with aclosing(survey(fleet, cluster, [replace(probe, twice=False) for probe in PROBES])) as answers:
        async for told in answers:
            facts[told.device] = told
            message = told.failure.reason if told.failure else f"{len(told.readings)} probes"
            yield Event(name="device_read", subject=told.device, message=message, data={"ok": told.failure is None})


def site_of(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> BenchSite:
    """Join the cluster file with what the nodes told."""
    return BenchSite(
        cluster=cluster,
        ports=tuple(_port(cluster, node, port, facts.get(node)) for node, port in cluster.ports()),
        failed={
            node: told.failure.reason if (told := facts.get(node)) and told.failure else "it was not read"
            for node in cluster.nodes
            if node not in facts or facts[node].failure
        },
        used={node: _used(told) for node, told in facts.items()},
        gpus={node: _gpus(told) for node, told in facts.items()},
    )


def _port(cluster: Cluster, node: str, port: Port, told: DeviceFacts | None) -> PortSite:
    device = _device(port, told)
    own = device.ports.get(str(port.rdma_port)) if device else None
    gid = rocev2_index(own.gids, port.address) if own else None
    limits, no_limit = _limits(cluster, node, port, told, device)
    end = End(
        node=node,
        rail=port.rail,
        netdev=port.netdev,
        address=str(port.address),
        rdma=port.rdma,
        rdma_port=port.rdma_port,
        gid_index=gid,
        gpu=_nearest_gpu(port, told),
        soft=bool(device and device.parent),
    )
    return PortSite(
        end=end,
        limits=limits,
        no_limit=no_limit,
        no_rdma=_no_rdma(port, device, own, gid),
        driver=device.driver if device else None,
        cable=far_end(cluster, node, port),
    )


def _device(port: Port, told: DeviceFacts | None) -> RdmaDevice | None:
    reading = told.read(infiniband.PROBE) if told else None
    return reading.facts.devices.get(port.rdma or "") if isinstance(reading, Known) else None


def _no_rdma(port: Port, device: RdmaDevice | None, own: RdmaPort | None, gid: int | None) -> str:
    if port.rdma is None:
        return "no RDMA device in the cluster file"
    if device is None or own is None:
        return f"there is no RDMA device {port.rdma} with a port {port.rdma_port}"
    if own.state not in (None, "ACTIVE"):
        return f"{port.rdma} is {own.state}"
    if own.link_layer != "InfiniBand" and gid is None:
        return f"{port.rdma} has no RoCE v2 GID for {port.address}"
    return ""


def _limits(
    cluster: Cluster, node: str, port: Port, told: DeviceFacts | None, device: RdmaDevice | None
) -> tuple[tuple[PathLimit, ...], str]:
    speed, why = _link_speed(cluster, port, told, device)
    if speed is None:
        return (), why
    link = PathLimit(part=f"the link of {node}/{port.netdev}", gbps=speed)
    reading = told.read(pcie.PROBE) if told else None
    cards = reading.facts.cards.values() if isinstance(reading, Known) else ()
    card = next((one for one in cards if port.netdev in one.netdevs or (port.rdma and port.rdma in one.rdma)), None)
    if card is None or card.speed_gts is None or card.width is None or card.virtual_function:
        return (link,), ""
    carried = pcie.carried_gbps(card.speed_gts, card.width)
    return (
        link,
        PathLimit(part=f"PCIe {card.speed_gts:g} GT/s x{card.width} of {node}/{port.netdev}", gbps=carried),
    ), ""


def _link_speed(
    cluster: Cluster, port: Port, told: DeviceFacts | None, device: RdmaDevice | None
) -> tuple[float | None, str]:
    """Return the speed of a link: what its card trained to, else what the file says; a virtual one claims anything."""
    own = device.ports.get(str(port.rdma_port)) if device else None
    stated = cluster.rails[port.rail].speed
    links = told.read(ip_link.PROBE) if told else None
    link = links.facts.links.get(port.netdev) if isinstance(links, Known) else None
    if (link and link.kind) or (device and device.parent):
        return stated, f"{port.netdev} is virtual and has no speed of its own: `speed` of its rail would tell"
    settings = told.read(ethtool.PROBE) if told else None
    ethernet = settings.facts.interfaces.get(port.netdev) if isinstance(settings, Known) else None
    if ethernet and ethernet.speed_mbps:
        return ethernet.speed_mbps / 1000, ""
    if own and own.rate_gbps:
        return own.rate_gbps, ""
    return stated, f"{port.netdev} does not tell its speed: `speed` of its rail would"


def _nearest_gpu(port: Port, told: DeviceFacts | None) -> int | None:
    if not told or not _gpus(told):
        return None
    reading = told.read(gpu_topology.PROBE)
    near = reading.facts.gpus_of(port.rdma or "") if isinstance(reading, Known) else {}
    ranked = sorted(near, key=lambda name: (NEAR.index(near[name]) if near[name] in NEAR else len(NEAR), name))
    return int(ranked[0].removeprefix("GPU")) if ranked else 0


def _gpus(told: DeviceFacts) -> int:
    reading = told.read(gpu.PROBE)
    return len(reading.facts.gpus) if isinstance(reading, Known) else 0


def _used(told: DeviceFacts) -> frozenset[int]:
    reading = told.read(listening.PROBE)
    return frozenset(one.port for one in reading.facts.listeners) if isinstance(reading, Known) else frozenset()
