"""A machine that was read, together with its entry in the existing file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface
from itertools import chain, count

from railbed.discover.observation import PORTS, RDMA, Observation, ObservedPort, location_of
from railbed.model.cabling import NAME_LENGTH, name_from
from railbed.model.cluster import Cluster, Node, Port


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredMachine:
    """One machine, under its name in the file."""

    name: str
    observation: Observation
    ports: tuple[ObservedPort, ...]
    """The observed ports, completed from the file with values that were not read and the rail."""
    filed: Node | None
    """Its entry in the file."""
    retained: tuple[Port, ...] = ()
    """Ports of the file that stay as they are: there is nothing newer, or a cable needs them."""


def machines_of(observations: Sequence[Observation], existing: Cluster | None) -> list[DiscoveredMachine]:
    """Return the machines sorted by host, so that the order of the arguments does not matter.

    They are named by their hostnames, with a number if those clash; the names of the existing file stay.
    """
    nodes = existing.nodes if existing else {}
    known = {location_of(node.host, node.login.over(existing.login)): name for name, node in nodes.items() if existing}
    taken = {*nodes, *(existing.switches if existing else ())}
    machines = []
    for observation in sorted(
        observations, key=lambda observation: (in_order(observation.host), observation.location[1:])
    ):
        filed = known.pop(observation.location, None)
        name = filed or free_name(observation.hostname, taken)
        taken.add(name)
        machines.append(_machine(name, observation, existing))
    return machines


def _machine(name: str, observation: Observation, existing: Cluster | None) -> DiscoveredMachine:
    filed = existing.nodes.get(name) if existing else None
    if existing is None or filed is None:
        return DiscoveredMachine(name=name, observation=observation, ports=observation.ports, filed=None)
    ports = tuple(_as_filed(observation, filed, existing))
    netdevs = {port.netdev for port in ports}
    missing = [port for port in filed.ports if port.netdev not in netdevs]
    retained = tuple(port for port in missing if _stays(observation, port, existing))
    return DiscoveredMachine(name=name, observation=observation, ports=ports, filed=filed, retained=retained)


def _as_filed(observation: Observation, filed: Node, existing: Cluster) -> Iterator[ObservedPort]:
    """Yield the observed ports; an interface that still has the address of the file keeps it, and its rail."""
    ports = {port.netdev: port for port in filed.ports}
    for observed in observation.ports:
        port = ports.get(observed.netdev)
        if port is None:
            yield observed
            continue
        known = replace(observed, rdma=port.rdma, rdma_port=port.rdma_port) if RDMA in observation.unknown else observed
        same = next(
            (address for address in observation.addresses.get(port.netdev, ()) if address.ip == port.address),
            observed.interface,
        )
        if not isinstance(same, IPv4Interface):
            continue
        stays = same.ip == port.address or existing.rails[port.rail].subnet is None
        yield replace(known, interface=same, rail=port.rail if stays else None)


def _stays(observation: Observation, port: Port, existing: Cluster) -> bool:
    """Whether a port of the file stays although it was not observed with an address for a rail."""
    here = any(address.ip == port.address for address in observation.addresses.get(port.netdev, ()))
    return here or PORTS in observation.unknown or existing.rails[port.rail].subnet is None


def free_name(text: str, taken: Collection[str]) -> str:
    """Turn a text into an unused name, numbered if necessary; `node1` if it has no usable characters."""
    wanted = name_from(text)
    if not wanted:
        return next(name for name in (f"node{number}" for number in count(1)) if name not in taken)
    ends = chain([""], (f"-{number}" for number in count(2)))
    return next(name for end in ends if (name := wanted[: NAME_LENGTH - len(end)] + end) not in taken)


def in_order(text: str) -> str:
    """Return the sort key that puts gpu2 before gpu10."""
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(NAME_LENGTH), text)
