"""What discover needs to know of one machine, picked from its facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import TypeVar

from railbed.model.cluster import Gpu, Login
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known
from railbed.probes import ethtool, gpu, hostname, infiniband, ip_addr, ip_link, lldp, rdma_link

PROBES: tuple[Probe[object], ...] = (
    hostname.PROBE,
    ip_addr.PROBE,
    ip_link.PROBE,
    rdma_link.PROBE,
    infiniband.PROBE,
    ethtool.PROBE,
    gpu.PROBE,
    lldp.PROBE,
)
NOT_A_RAIL = ("bridge", "tun", "wireguard", "vxlan", "ipip", "sit", "gre", "dummy")
CONTAINER_NAMES = ("docker", "virbr", "cni", "flannel", "cali", "br-")

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPort:
    """A network interface with an address, and its RDMA device where it has one."""

    netdev: str
    interface: IPv4Interface
    mtu: int
    rdma: str | None = None
    rdma_port: int = 1
    speed_gbps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNeighbour:
    """What LLDP says is at the other end of a cable."""

    netdev: str
    system: str
    description: str
    port: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One machine as it was seen."""

    host: str
    login: Login
    hostname: str
    ports: tuple[SeenPort, ...]
    bare_rdma: tuple[str, ...]
    """RDMA devices whose interface has no IPv4 address, or that have no interface."""
    gpus: tuple[Gpu, ...]
    neighbours: tuple[SeenNeighbour, ...] = ()


def sighting_of(host: str, login: Login, facts: DeviceFacts) -> Sighting:
    """Pick from a machine's facts; what is unknown there is left out, never invented."""
    devices = _rdma_devices(facts)
    ports = tuple(_ports(facts, devices))
    with_address = {port.rdma for port in ports}
    name = _facts(facts, hostname.PROBE)
    return Sighting(
        host=host,
        login=login,
        hostname=name.name.partition(".")[0] if name else host,
        ports=ports,
        bare_rdma=tuple(sorted({device for device, _ in devices.values()} - with_address)),
        gpus=tuple(_gpus(facts)),
        neighbours=tuple(_neighbours(facts)),
    )


def _facts(facts: DeviceFacts, probe: Probe[F]) -> F | None:
    reading = facts.read(probe)
    return reading.facts if isinstance(reading, Known) else None


def _rdma_devices(facts: DeviceFacts) -> dict[str, tuple[str, int]]:
    """Return (device, port) by interface, from `rdma link` or the GID tables; a device without one by itself."""
    links = _facts(facts, rdma_link.PROBE)
    if links:
        return {link.netdev or f"/{link.device}": (link.device, link.port) for link in links.links.values()}
    tree = _facts(facts, infiniband.PROBE)
    found: dict[str, tuple[str, int]] = {}
    for device in tree.devices.values() if tree else ():
        for number, port in device.ports.items():
            netdevs = {gid.netdev for gid in port.gids if gid.netdev} or {f"/{device.name}"}
            found |= {netdev: (device.name, int(number)) for netdev in netdevs}
    return found


def _ports(facts: DeviceFacts, devices: dict[str, tuple[str, int]]) -> Iterator[SeenPort]:
    addresses, links = _facts(facts, ip_addr.PROBE), _facts(facts, ip_link.PROBE)
    settings = _facts(facts, ethtool.PROBE)
    if not addresses or not links:
        return
    for netdev, found in addresses.interfaces.items():
        link = links.links.get(netdev)
        address = next((one.interface for one in found if one.scope == "global" and _is_host_address(one)), None)
        if link is None or not isinstance(address, IPv4Interface) or _is_container_side(link):
            continue
        device, port = devices.get(netdev, (None, 1))
        speed = settings.interfaces.get(netdev) if settings else None
        mbps = speed.speed_mbps if speed else None
        yield SeenPort(
            netdev=netdev,
            interface=address,
            mtu=link.mtu,
            rdma=device,
            rdma_port=port,
            speed_gbps=mbps / 1000 if mbps else None,
        )


def _is_host_address(address: ip_addr.Address) -> bool:
    return isinstance(address.interface.ip, IPv4Address) and address.prefix < 32


def _is_container_side(link: ip_link.Link) -> bool:
    return link.kind in NOT_A_RAIL or link.name.startswith(CONTAINER_NAMES)


def _gpus(facts: DeviceFacts) -> Iterator[Gpu]:
    found = _facts(facts, gpu.PROBE)
    for one in found.gpus if found else ():
        memory = round(one.memory_bytes / 2**30) if one.memory_bytes else None
        yield Gpu(name=one.name, memory_gb=memory or None)


def _neighbours(facts: DeviceFacts) -> Iterator[SeenNeighbour]:
    found = _facts(facts, lldp.PROBE)
    for netdev, neighbours in found.interfaces.items() if found else ():
        for one in neighbours:
            yield SeenNeighbour(
                netdev=netdev,
                system=one.system or "",
                description=one.system_description or "",
                port=one.port,
                addresses=one.addresses,
            )
