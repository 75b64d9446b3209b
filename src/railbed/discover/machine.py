"""A machine that was seen, beside what the existing file says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface

from railbed.discover.names import free_name, in_order
from railbed.discover.observation import PORTS, RDMA, Observation, ObservedPort, location_of
from railbed.model.cluster import Cluster, Node, Port


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine, under its name in the file."""

    name: str
    observation: Observation
    ports: tuple[ObservedPort, ...]
    """The ports seen, with the file's word for what was not read and for what an interface is used for."""
    filed: Node | None
    """The node that the file has for it."""
    kept: tuple[Port, ...] = ()
    """Ports of the file that stay as they are there: nobody knows better, or they are needed."""


def machines_of(observations: Sequence[Observation], existing: Cluster | None) -> list[Machine]:
    """Return the machines by host, so that the order in which they were given decides nothing.

    They are named by their hostnames, with a number where those clash; the names of the existing file stay.
    """
    nodes = existing.nodes if existing else {}
    known = {location_of(node.host, node.login.over(existing.login)): name for name, node in nodes.items() if existing}
    taken = {*nodes, *(existing.switches if existing else ())}
    machines = []
    for observation in sorted(observations, key=lambda one: (in_order(one.host), one.location[1:])):
        filed = known.pop(observation.location, None)
        name = filed or free_name(observation.hostname, taken)
        taken.add(name)
        machines.append(_machine(name, observation, existing))
    return machines


def _machine(name: str, observation: Observation, existing: Cluster | None) -> Machine:
    filed = existing.nodes.get(name) if existing else None
    if existing is None or filed is None:
        return Machine(name=name, observation=observation, ports=observation.ports, filed=None)
    ports = tuple(_as_filed(observation, filed, existing))
    seen = {port.netdev for port in ports}
    kept = tuple(port for port in filed.ports if port.netdev not in seen and _stays(observation, port, existing))
    return Machine(name=name, observation=observation, ports=ports, filed=filed, kept=kept)


def _as_filed(observation: Observation, filed: Node, existing: Cluster) -> Iterator[ObservedPort]:
    """Yield the ports seen; an interface that still has the address of the file keeps it, and its rail."""
    ports = {port.netdev: port for port in filed.ports}
    for seen in observation.ports:
        port = ports.get(seen.netdev)
        if port is None:
            yield seen
            continue
        known = replace(seen, rdma=port.rdma, rdma_port=port.rdma_port) if RDMA in observation.unknown else seen
        same = next(
            (one for one in observation.addresses.get(port.netdev, ()) if one.ip == port.address), seen.interface
        )
        if not isinstance(same, IPv4Interface):
            continue
        stays = same.ip == port.address or existing.rails[port.rail].subnet is None
        yield replace(known, interface=same, rail=port.rail if stays else None)


def _stays(observation: Observation, port: Port, existing: Cluster) -> bool:
    """Say whether a port of the file stays that was not seen with an address for a rail."""
    here = any(one.ip == port.address for one in observation.addresses.get(port.netdev, ()))
    return here or PORTS in observation.unknown or existing.rails[port.rail].subnet is None
