"""What discover needs to know of one machine, picked from its facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_address
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from railbed.model.cluster import Gpu, Login, Port, Text
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.probes import ethtool, gpu, hostname, infiniband, ip_addr, ip_link, lldp, rdma_link, ssh_session

PROBES: tuple[Probe[object], ...] = (
    hostname.PROBE,
    ip_addr.PROBE,
    ip_link.PROBE,
    rdma_link.PROBE,
    infiniband.PROBE,
    ethtool.PROBE,
    gpu.PROBE,
    lldp.PROBE,
    ssh_session.PROBE,
)
NOT_A_RAIL = ("bridge", "tun", "wireguard", "vxlan", "ipip", "sit", "gre", "dummy")
CONTAINER_NAMES = ("docker", "virbr", "cni", "flannel", "cali", "br-")
SSH_PORT = 22
PORTS, RDMA, GPUS = "ports", "RDMA devices", "GPUs"
"""The parts of a machine that can be unknown."""

F = TypeVar("F")
Place = tuple[str, int, str | None]
"""Where a machine is: two nodes at one place are one machine."""


def place_of(host: str, login: Login) -> Place:
    """Return the place of a host with its whole login."""
    return host.lower(), login.port or SSH_PORT, login.jump


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPort:
    """A network interface with an address, and its RDMA device where it has one."""

    netdev: str
    interface: IPv4Interface
    mtu: int
    rdma: str | None = None
    rdma_port: int = 1
    speed_gbps: float | None = None
    carries_ssh: bool = False
    """Whether we reach the machine over it."""
    rail: str | None = None
    """Its rail, where the file says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNeighbour:
    """What LLDP says is at the other end of a cable."""

    netdev: str
    system: str
    description: str
    port: str
    """Its port, by name where it tells one."""
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
    common_login: Login = field(default_factory=Login)
    """The login of all machines, for what `login` does not say."""
    addresses: Mapping[str, tuple[IPv4Interface | IPv6Interface, ...]] = field(default_factory=dict)
    """All addresses of every interface that there is."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a part (`PORTS`, `RDMA`, `GPUS`) is not known: it may be there all the same."""
    left_out: tuple[str, ...] = ()
    """What the machine said that has no place in a cluster file."""

    @property
    def place(self) -> Place:
        """Return where the machine is."""
        return place_of(self.host, self.login.over(self.common_login))


def is_host_of(address: IPv4Address, network: IPv4Network | IPv6Network) -> bool:
    """Say whether a network has an address, and a machine can have it."""
    ends = (network.network_address, network.broadcast_address)
    return address in network and (network.num_addresses <= 2 or address not in ends)


def sighting_of(host: str, login: Login, facts: DeviceFacts, *, common_login: Login | None = None) -> Sighting:
    """Pick from a machine's facts; what is unknown there is left out and said to be, never invented."""
    unknown = dict(_unknown(facts))
    devices = _rdma_devices(facts)
    left_out: list[str] = []
    ssh = frozenset(_ssh_netdevs(host, facts))
    ports = tuple(replace(port, carries_ssh=port.netdev in ssh) for port in _ports(facts, devices, left_out))
    name = _facts(facts, hostname.PROBE)
    return Sighting(
        host=host,
        login=login,
        common_login=common_login or Login(),
        hostname=name.name.partition(".")[0] if name else host,
        ports=ports,
        bare_rdma=() if PORTS in unknown else tuple(_bare_rdma(facts, devices)),
        gpus=tuple(_gpus(facts, left_out)),
        neighbours=tuple(_neighbours(facts, left_out)),
        addresses=_addresses(facts),
        unknown=unknown,
        left_out=tuple(left_out),
    )


def _unknown(facts: DeviceFacts) -> Iterator[tuple[str, str]]:
    addresses, links = facts.read(ip_addr.PROBE), facts.read(ip_link.PROBE)
    for reading in (addresses, links):
        if isinstance(reading, Unknown):
            yield PORTS, reading.reason
    rdma, tree = facts.read(rdma_link.PROBE), facts.read(infiniband.PROBE)
    if isinstance(rdma, Unknown) and isinstance(tree, Unknown):
        yield RDMA, rdma.reason
    found = facts.read(gpu.PROBE)
    if isinstance(found, Unknown):
        yield GPUS, found.reason
    elif not found.facts.gpus and (found.facts.on_bus or (found.facts.on_bus is None and found.facts.problem)):
        yield GPUS, found.facts.problem or "the PCI bus has some that nvidia-smi does not show"


def _addresses(facts: DeviceFacts) -> dict[str, tuple[IPv4Interface | IPv6Interface, ...]]:
    found, links = _facts(facts, ip_addr.PROBE), _facts(facts, ip_link.PROBE)
    netdevs = {**dict.fromkeys(links.links if links else (), ()), **(found.interfaces if found else {})}
    return {netdev: tuple(one.interface for one in addresses) for netdev, addresses in netdevs.items()}


def _ssh_netdevs(host: str, facts: DeviceFacts) -> Iterator[str]:
    """Yield the interfaces that SSH comes in on: as the machine says, else by the address that we connect to."""
    session = _facts(facts, ssh_session.PROBE)
    if session and session.netdev:
        yield session.netdev
        return
    try:
        address = ip_address((session and session.address) or host.partition("%")[0])
    except ValueError:
        return
    for netdev, interfaces in _addresses(facts).items():
        if any(interface.ip == address for interface in interfaces):
            yield netdev


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


def _bare_rdma(facts: DeviceFacts, devices: dict[str, tuple[str, int]]) -> list[str]:
    """Return the RDMA devices none of whose interfaces has an address that a rail could have."""
    with_address = {devices[netdev][0] for netdev, *_ in _candidates(facts) if netdev in devices}
    return sorted({device for device, _ in devices.values()} - with_address)


def _candidates(facts: DeviceFacts) -> Iterator[tuple[str, IPv4Interface, ip_link.Link]]:
    """Yield the interfaces that could be on a rail, with their first address."""
    addresses, links = _facts(facts, ip_addr.PROBE), _facts(facts, ip_link.PROBE)
    if not addresses or not links:
        return
    for netdev, found in addresses.interfaces.items():
        link = links.links.get(netdev)
        address = next((one.interface for one in found if one.scope == "global" and _is_host_address(one)), None)
        if link and isinstance(address, IPv4Interface) and not _is_container_side(link):
            yield netdev, address, link


def _ports(facts: DeviceFacts, devices: dict[str, tuple[str, int]], left_out: list[str]) -> Iterator[SeenPort]:
    settings = _facts(facts, ethtool.PROBE)
    used: set[tuple[str, int]] = set()
    for netdev, address, link in _candidates(facts):
        found = devices.get(netdev)
        # A VLAN shares the RDMA port of the interface below it; in the file the port stands once.
        device, number = found if found and found not in used else (None, 1)
        used |= {found} if found else set()
        speed = settings.interfaces.get(netdev) if settings else None
        mbps = speed.speed_mbps if speed else None
        if not _fits_the_file(netdev, device, number, address):
            left_out.append(f"{_shown(netdev, device)} with {address}")
            continue
        yield SeenPort(
            netdev=netdev,
            interface=address,
            mtu=link.mtu,
            rdma=device,
            rdma_port=number,
            speed_gbps=mbps / 1000 if mbps and mbps > 0 else None,
        )


def _fits_the_file(netdev: str, device: str | None, number: int, address: IPv4Interface) -> bool:
    try:
        Port(netdev=netdev, rdma=device, rdma_port=number, rail="any", address=address.ip)
    except ValidationError:
        return False
    return is_host_of(address.ip, address.network)


def _shown(*names: str | None) -> str:
    """Return names as a message can show them, whatever is in them."""
    return "/".join(ascii(name)[1:-1] for name in names if name is not None)


def _is_host_address(address: ip_addr.Address) -> bool:
    return isinstance(address.interface.ip, IPv4Address) and address.prefix < 32


def _is_container_side(link: ip_link.Link) -> bool:
    return link.kind in NOT_A_RAIL or link.name.startswith(CONTAINER_NAMES)


def _gpus(facts: DeviceFacts, left_out: list[str]) -> Iterator[Gpu]:
    found = _facts(facts, gpu.PROBE)
    for one in found.gpus if found else ():
        memory = round(one.memory_bytes / 2**30) if one.memory_bytes else None
        try:
            yield Gpu(name=one.name, memory_gb=memory or None)
        except ValidationError:
            left_out.append(f"GPU {_shown(one.name)}")


def _neighbours(facts: DeviceFacts, left_out: list[str]) -> Iterator[SeenNeighbour]:
    found = _facts(facts, lldp.PROBE)
    for netdev, neighbours in found.interfaces.items() if found else ():
        for one in neighbours:
            port = one.port_description if one.port_type == "mac" and one.port_description else one.port
            if not _is_text(port):
                left_out.append(f"LLDP neighbour of {_shown(netdev)} with port '{_shown(port)}'")
                continue
            yield SeenNeighbour(
                netdev=netdev,
                system=one.system or "",
                description=one.system_description or "",
                port=port,
                addresses=one.addresses,
            )


def _is_text(value: str) -> bool:
    try:
        TypeAdapter[str](Text).validate_python(value)
    except ValidationError:
        return False
    return True
