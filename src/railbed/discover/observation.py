"""The part of a machine's facts that discover uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_address
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from railbed.model.cabling import Neighbour
from railbed.model.cluster import Gpu, Login, Port, SwitchPortName
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.probes import (
    ethtool,
    gpu,
    hostname,
    infiniband,
    ip_addr,
    ip_link,
    lldp,
    pythons,
    rdma_link,
    ssh_session,
    torch,
)

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
ENVIRONMENT_PROBES: tuple[Probe[object], ...] = (torch.PROBE, pythons.PROBE)
NOT_A_RAIL = ("bridge", "tun", "wireguard", "vxlan", "ipip", "sit", "gre", "dummy")
CONTAINER_NAMES = ("docker", "virbr", "cni", "flannel", "cali", "br-")
SSH_PORT = 22
PORTS, RDMA, GPUS = "ports", "RDMA devices", "GPUs"
"""The parts of a machine that can be unknown."""

F = TypeVar("F")
Location = tuple[str, int, str | None]
"""Host, port and jump host: two nodes with the same location are one machine."""


def location_of(host: str, login: Login) -> Location:
    """Return the location of a host with its complete login."""
    return host.lower(), login.port or SSH_PORT, login.jump


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPort:
    """A network interface with an address, and its RDMA device if it has one."""

    netdev: str
    interface: IPv4Interface
    mtu: int
    rdma: str | None = None
    rdma_port: int = 1
    speed_gbps: float | None = None
    carries_ssh: bool = False
    """Whether our SSH session uses it."""
    rail: str | None = None
    """Its rail, if the file names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One machine as it was read."""

    host: str
    login: Login
    hostname: str
    ports: tuple[ObservedPort, ...]
    bare_rdma: tuple[str, ...]
    """RDMA devices whose interface has no IPv4 address, or that have no interface."""
    gpus: tuple[Gpu, ...]
    neighbours: Mapping[str, tuple[Neighbour, ...]] = field(default_factory=dict)
    """LLDP neighbours by interface."""
    macs: Mapping[str, str] = field(default_factory=dict)
    """MAC addresses by interface."""
    common_login: Login = field(default_factory=Login)
    """The login of all machines, for settings that `login` does not have."""
    addresses: Mapping[str, tuple[IPv4Interface | IPv6Interface, ...]] = field(default_factory=dict)
    """All addresses of every interface of the machine."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a part (`PORTS`, `RDMA`, `GPUS`) is unknown; it may still exist."""
    lacks_torch: bool = False
    """It is known to have none, neither in the Python that it trains with nor in conda's."""
    left_out: tuple[str, ...] = ()
    """What the machine reported that cannot be written in a cluster file."""

    @property
    def location(self) -> Location:
        """Host, port and jump host of the machine."""
        return location_of(self.host, self.login.over(self.common_login))


def is_host_of(address: IPv4Address, network: IPv4Network | IPv6Network) -> bool:
    """Whether an address belongs to a network and a machine can have it."""
    ends = (network.network_address, network.broadcast_address)
    return address in network and (network.num_addresses <= 2 or address not in ends)


def observe(host: str, login: Login, facts: DeviceFacts, *, common_login: Login | None = None) -> Observation:
    """Extract an observation from facts. Unknown parts are left out and listed as unknown, never invented."""
    unknown = dict(_unknown(facts))
    devices = _rdma_devices(facts)
    left_out: list[str] = []
    ssh = frozenset(_ssh_netdevs(host, facts))
    ports = tuple(replace(port, carries_ssh=port.netdev in ssh) for port in _ports(facts, devices, left_out))
    name = _facts(facts, hostname.PROBE)
    return Observation(
        host=host,
        login=login,
        common_login=common_login or Login(),
        hostname=name.name.partition(".")[0] if name else host,
        ports=ports,
        bare_rdma=() if PORTS in unknown else tuple(_bare_rdma(facts, devices)),
        gpus=tuple(_gpus(facts, left_out)),
        neighbours=_neighbours(facts, left_out),
        macs=_macs(facts),
        addresses=_addresses(facts),
        unknown=unknown,
        lacks_torch=_lacks_torch(facts),
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
    gpus = facts.read(gpu.PROBE)
    if isinstance(gpus, Unknown):
        yield GPUS, gpus.reason
    elif not gpus.facts.gpus and (gpus.facts.on_bus or (gpus.facts.on_bus is None and gpus.facts.problem)):
        yield GPUS, gpus.facts.problem or "the PCI bus has GPUs that nvidia-smi does not show"


def _addresses(facts: DeviceFacts) -> dict[str, tuple[IPv4Interface | IPv6Interface, ...]]:
    configured, links = _facts(facts, ip_addr.PROBE), _facts(facts, ip_link.PROBE)
    netdevs = {**dict.fromkeys(links.links if links else (), ()), **(configured.interfaces if configured else {})}
    return {netdev: tuple(address.interface for address in addresses) for netdev, addresses in netdevs.items()}


def _macs(facts: DeviceFacts) -> dict[str, str]:
    links = _facts(facts, ip_link.PROBE)
    return {name: link.address.lower() for name, link in links.links.items() if link.address} if links else {}


def _ssh_netdevs(host: str, facts: DeviceFacts) -> Iterator[str]:
    """Yield the interfaces that carry SSH: as the machine reports, otherwise by the address that we connect to."""
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


def _lacks_torch(facts: DeviceFacts) -> bool:
    installed, others = _facts(facts, torch.PROBE), _facts(facts, pythons.PROBE)
    if installed is None or others is None:
        return False
    return not installed.torch and not any(environment.torch for environment in others.conda)


def _facts(facts: DeviceFacts, probe: Probe[F]) -> F | None:
    reading = facts.read(probe)
    return reading.facts if isinstance(reading, Known) else None


def _rdma_devices(facts: DeviceFacts) -> dict[str, tuple[str, int]]:
    """Return (device, port) by interface, from `rdma link` or the GID tables; without an interface, by device name."""
    links = _facts(facts, rdma_link.PROBE)
    if links:
        return {link.netdev or f"/{link.device}": (link.device, link.port) for link in links.links.values()}
    tree = _facts(facts, infiniband.PROBE)
    devices: dict[str, tuple[str, int]] = {}
    for device in tree.devices.values() if tree else ():
        for number, port in device.ports.items():
            netdevs = {gid.netdev for gid in port.gids if gid.netdev} or {f"/{device.name}"}
            devices |= {netdev: (device.name, int(number)) for netdev in netdevs}
    return devices


def _bare_rdma(facts: DeviceFacts, devices: dict[str, tuple[str, int]]) -> list[str]:
    """Return the RDMA devices whose interfaces have no address that could be on a rail."""
    with_address = {devices[netdev][0] for netdev, *_ in _candidates(facts) if netdev in devices}
    return sorted({device for device, _ in devices.values()} - with_address)


def _candidates(facts: DeviceFacts) -> Iterator[tuple[str, IPv4Interface, ip_link.Link]]:
    """Yield the interfaces that could be on a rail, with their first address."""
    addresses, links = _facts(facts, ip_addr.PROBE), _facts(facts, ip_link.PROBE)
    if not addresses or not links:
        return
    for netdev, configured in addresses.interfaces.items():
        link = links.links.get(netdev)
        usable = (address for address in configured if address.scope == "global" and _is_host_address(address))
        address = next((address.interface for address in usable), None)
        if link and isinstance(address, IPv4Interface) and not _is_container_side(link):
            yield netdev, address, link


def _ports(facts: DeviceFacts, devices: dict[str, tuple[str, int]], left_out: list[str]) -> Iterator[ObservedPort]:
    settings = _facts(facts, ethtool.PROBE)
    used: set[tuple[str, int]] = set()
    for netdev, address, link in _candidates(facts):
        rdma = devices.get(netdev)
        # A VLAN shares the RDMA port of the interface below it; in the file the RDMA port appears once.
        device, number = rdma if rdma and rdma not in used else (None, 1)
        used |= {rdma} if rdma else set()
        speed = settings.interfaces.get(netdev) if settings else None
        mbps = speed.speed_mbps if speed else None
        if not _fits_the_file(netdev, device, number, address):
            left_out.append(f"{_escape(netdev, device)} with {address}")
            continue
        yield ObservedPort(
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


def _escape(*names: str | None) -> str:
    """Return names in a printable form."""
    return "/".join(ascii(name)[1:-1] for name in names if name is not None)


def _is_host_address(address: ip_addr.Address) -> bool:
    return isinstance(address.interface.ip, IPv4Address) and address.prefix < 32


def _is_container_side(link: ip_link.Link) -> bool:
    return link.kind in NOT_A_RAIL or link.name.startswith(CONTAINER_NAMES)


def _gpus(facts: DeviceFacts, left_out: list[str]) -> Iterator[Gpu]:
    gpus = _facts(facts, gpu.PROBE)
    for device in gpus.gpus if gpus else ():
        memory = round(device.memory_bytes / 2**30) if device.memory_bytes else None
        try:
            yield Gpu(name=device.name, memory_gb=memory or None)
        except ValidationError:
            left_out.append(f"GPU {_escape(device.name)}")


def _neighbours(facts: DeviceFacts, left_out: list[str]) -> dict[str, tuple[Neighbour, ...]]:
    """Return the neighbours whose port can be named in a cluster file."""
    neighbours: dict[str, tuple[Neighbour, ...]] = {}
    lldp_facts = _facts(facts, lldp.PROBE)
    for netdev, announced in lldp_facts.interfaces.items() if lldp_facts else ():
        usable = tuple(neighbour for neighbour in announced if _names_a_port(neighbour.port_name))
        if usable:
            neighbours[netdev] = usable
        left_out += [
            f"LLDP neighbour of {_escape(netdev)} with port '{_escape(neighbour.port_name)}'"
            for neighbour in announced
            if neighbour not in usable
        ]
    return neighbours


def _names_a_port(value: str) -> bool:
    try:
        TypeAdapter[str](SwitchPortName).validate_python(value)
    except ValidationError:
        return False
    return True
