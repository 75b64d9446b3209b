"""Which port gets an address that several ports have: a cluster file contains each address once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address

from railbed.discover.machine import DiscoveredMachine
from railbed.discover.observation import ObservedPort, is_host_of
from railbed.model.cluster import Cluster, Port, Rail

End = tuple[str, str]
"""A node and its interface: one end of a cable."""


class Priority(IntEnum):
    """Priority of a candidate, highest first."""

    CONFIRMED = 0
    """The file has it, and no machine contradicts it."""
    MOVED = 1
    """The end of a cable with a new address; the cable needs both ends."""
    NEW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A port that may be written to the file."""

    node: str
    forms: tuple[Port, ...]
    """The ports as which it could be written, best first."""
    rank: Priority

    @property
    def end(self) -> End:
        """Return the node and the interface."""
        return self.node, self.forms[0].netdev


@dataclass(frozen=True, slots=True)
class SharedAddress:
    """Which candidates got their addresses."""

    ports: dict[End, Port] = field(default_factory=dict)
    """The ports to write to the file."""
    lost: dict[End, tuple[Port, End]] = field(default_factory=dict)
    """The ports left out, each with the port that has its address."""


def allocate(
    machines: Sequence[DiscoveredMachine], rails: Mapping[str, Rail], existing: Cluster | None
) -> SharedAddress:
    """Give each address to one port: by priority, then to the first machine."""
    allocation = SharedAddress()
    owners: dict[IPv4Address | IPv6Address, End] = {}
    for candidate in sorted(_candidates(machines, rails, existing), key=lambda candidate: candidate.rank):
        free = [port for port in candidate.forms if candidate.rank is Priority.CONFIRMED or port.address not in owners]
        if free:
            allocation.ports[candidate.end] = free[0]
            owners[free[0].address] = candidate.end
        else:
            allocation.lost[candidate.end] = (candidate.forms[0], owners[candidate.forms[0].address])
    return allocation


def _candidates(
    machines: Sequence[DiscoveredMachine], rails: Mapping[str, Rail], existing: Cluster | None
) -> Iterator[Candidate]:
    read = {machine.name for machine in machines}
    for name, port in existing.ports() if existing else ():
        if name not in read:
            yield Candidate(node=name, forms=(port,), rank=Priority.CONFIRMED)
    for machine in machines:
        yield from (Candidate(node=machine.name, forms=(port,), rank=Priority.CONFIRMED) for port in machine.retained)
        yield from _propose_ports(machine, rails)


def _propose_ports(machine: DiscoveredMachine, rails: Mapping[str, Rail]) -> Iterator[Candidate]:
    filed = {port.netdev: port for port in machine.filed.ports} if machine.filed else {}
    used = {(port.rdma, port.rdma_port) for port in machine.retained}
    for observed in machine.ports:
        rail = rail_of(observed, rails)
        if rail is None:
            continue
        rdma, number = (
            (observed.rdma, observed.rdma_port) if (observed.rdma, observed.rdma_port) not in used else (None, 1)
        )
        port = Port(netdev=observed.netdev, rdma=rdma, rdma_port=number, rail=rail, address=observed.interface.ip)
        if observed.rail is None:
            yield Candidate(node=machine.name, forms=(port,), rank=Priority.NEW)
        elif port.address == filed[port.netdev].address:
            yield Candidate(node=machine.name, forms=(port,), rank=Priority.CONFIRMED)
        else:
            old = port.model_copy(update={"address": filed[port.netdev].address})
            yield Candidate(node=machine.name, forms=(port, old), rank=Priority.MOVED)


def rail_of(port: ObservedPort, rails: Mapping[str, Rail]) -> str | None:
    """Return the rail of a port: from the file, by its subnet, or one whose subnet includes its address."""
    if port.rail:
        return port.rail
    exact = (name for name, rail in rails.items() if rail.subnet == port.interface.network)
    around = (name for name, rail in rails.items() if rail.subnet and is_host_of(port.interface.ip, rail.subnet))
    return next(exact, None) or next(around, None)
