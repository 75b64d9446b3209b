"""Joins what was seen of many machines into one cluster: pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from typing import TypeVar

from pydantic import ValidationError

from railbed.discover.names import free_name, name_from
from railbed.discover.sighting import GPUS, PORTS, RDMA, SeenNeighbour, SeenPort, Sighting, place_of
from railbed.model.cluster import Cluster, Login, Node, Policy, Port, Rail, Switch, SwitchPort

POINT_TO_POINT_PREFIX = 30

T = TypeVar("T")


def build(
    name: str, sightings: Sequence[Sighting], *, existing: Cluster | None = None, switches: Sequence[str] = ()
) -> Cluster:
    """Return the cluster that was seen. What an existing file says and a machine cannot know stays as it is there."""
    filed = _filed(sightings, existing)
    names = _node_names(sightings, filed, existing)
    sightings = _as_filed(sightings, filed, existing)
    taken = _taken(sightings, filed, existing)
    sightings = [_without(sighting, twice) for sighting, twice in zip(sightings, taken, strict=True)]
    rails = _rails(sightings, existing)
    seen = {names[index]: _node(sighting, rails) for index, sighting in enumerate(sightings)}
    if existing:
        known = {
            name: _kept(sighting, existing, name, seen[name]) for name, sighting in zip(names, sightings, strict=True)
        }
        nodes = {**existing.nodes, **known}
        return existing.model_copy(
            update={
                "nodes": nodes,
                "rails": {name: _still_a_cable(name, rail, nodes) for name, rail in rails.items()},
                "switches": _switches(sightings, names, nodes, switches, _cabled(existing.switches, nodes)),
            }
        )
    login, nodes = _common_login(seen)
    return Cluster(
        name=name,
        login=login,
        policy=_policy(sightings, rails),
        rails=rails,
        nodes=nodes,
        switches=_switches(sightings, names, nodes, switches, {}),
    )


def notices(sightings: Sequence[Sighting], existing: Cluster | None = None) -> Iterator[str]:
    """Yield what the user should know that the file cannot say."""
    filed = _filed(sightings, existing)
    sightings = _as_filed(sightings, filed, existing)
    for sighting, name, taken in zip(sightings, filed, _taken(sightings, filed, existing), strict=True):
        for part, reason in sighting.unknown.items():
            fate = "stays as it is in the file" if name else "was left out"
            yield f"{sighting.host}: what {part} it has could not be read and {fate}: {reason}"
        for text in sighting.left_out:
            yield f"{sighting.host}: {text} cannot stand in a cluster file and was left out"
        filed_rdma = {port.rdma for port in existing.nodes[name].ports} if existing and name else set()
        for device in sorted({*sighting.bare_rdma} - filed_rdma):
            yield f"{sighting.host}: RDMA device {device} has no IPv4 address on its interface and was left out"
        for port in taken:
            yield (
                f"{sighting.host}: {port.interface.ip} on {port.netdev} is also on another machine and was left out; "
                "is it the same machine twice?"
            )
        for lost in _lost_ends(sighting, existing, name):
            yield f"{sighting.host}: {lost.netdev} is gone; the file keeps it, as the cable {lost.rail} has two ends"


def _filed(sightings: Sequence[Sighting], existing: Cluster | None) -> list[str | None]:
    """Return, for each machine, its name in the existing file."""
    if existing is None:
        return [None] * len(sightings)
    known = {place_of(node.host, node.login.over(existing.login)): name for name, node in existing.nodes.items()}
    return [known.pop(sighting.place, None) for sighting in sightings]


def _node_names(sightings: Sequence[Sighting], filed: Sequence[str | None], existing: Cluster | None) -> list[str]:
    """Name nodes by their hostnames, keeping the names of the existing file and adding a number where they clash."""
    taken = set(existing.nodes) if existing else set()
    names: list[str] = []
    for sighting, known in zip(sightings, filed, strict=True):
        names.append(known or free_name(sighting.hostname, taken))
        taken.add(names[-1])
    return names


def _as_filed(
    sightings: Sequence[Sighting], filed: Sequence[str | None], existing: Cluster | None
) -> Sequence[Sighting]:
    """Return the sightings with the file's word for what was not read, and for what an interface is used for."""
    if existing is None:
        return sightings
    return [
        replace(sighting, ports=tuple(_filed_ports(sighting, existing, existing.nodes[name]))) if name else sighting
        for sighting, name in zip(sightings, filed, strict=True)
    ]


def _filed_ports(sighting: Sighting, existing: Cluster, node: Node) -> Iterator[SeenPort]:
    ports = {port.netdev: port for port in node.ports}
    for seen in sighting.ports:
        port = ports.get(seen.netdev)
        if port is None:
            yield seen
            continue
        known = replace(seen, rdma=port.rdma, rdma_port=port.rdma_port) if RDMA in sighting.unknown else seen
        same = next((one for one in sighting.addresses.get(port.netdev, ()) if one.ip == port.address), seen.interface)
        if not isinstance(same, IPv4Interface):
            continue
        stays = same.ip == port.address or existing.rails[port.rail].subnet is None
        yield replace(known, interface=same, rail=port.rail if stays else None)


def _taken(
    sightings: Sequence[Sighting], filed: Sequence[str | None], existing: Cluster | None
) -> list[list[SeenPort]]:
    """Return, for each machine, the ports whose address another has already: by the file, or by being first."""
    read = {name for name, sighting in zip(filed, sightings, strict=True) if PORTS not in sighting.unknown}
    owners: dict[object, object] = {
        port.address: name for name, port in (existing.ports() if existing else ()) if name not in read
    }
    claims = [
        (port.rail is None, filed[index] is None, index, port)
        for index, sighting in enumerate(sightings)
        for port in sighting.ports
    ]
    for _, _, index, port in sorted(claims, key=lambda claim: claim[:3]):
        owners.setdefault(port.interface.ip, (index, port.netdev))
    return [
        [port for port in sighting.ports if owners[port.interface.ip] != (index, port.netdev)]
        for index, sighting in enumerate(sightings)
    ]


def _without(sighting: Sighting, ports: Sequence[SeenPort]) -> Sighting:
    return replace(sighting, ports=tuple(port for port in sighting.ports if port not in ports))


def _rails(sightings: Sequence[Sighting], existing: Cluster | None) -> dict[str, Rail]:
    """Return the file's rails, and one for every other subnet with RDMA on it.

    Where there is no RDMA at all, it is one for every subnet that machines share.
    """
    rails = dict(existing.rails) if existing else {}
    seen = [port for sighting in sightings for port in sighting.ports]
    ports: dict[IPv4Network, list[SeenPort]] = {}
    for port in seen:
        if _rail_of(port, rails) is None:
            ports.setdefault(port.interface.network, []).append(port)
    if any(port.rdma for port in seen) or (existing and any(port.rdma for _, port in existing.ports())):
        chosen = {subnet for subnet, group in ports.items() if any(port.rdma for port in group)}
    else:
        chosen = {subnet for subnet, group in ports.items() if len(group) > 1}
    names = (name for name in (f"rail{number}" for number in range(10_000)) if name not in rails)
    return rails | {name: _rail(subnet, ports[subnet]) for subnet, name in zip(sorted(chosen), names, strict=False)}


def _rail_of(port: SeenPort, rails: Mapping[str, Rail]) -> str | None:
    """Return the rail of a port: the file's, or the one of its subnet, or one that holds its address."""
    if port.rail:
        return port.rail
    exact = (name for name, rail in rails.items() if rail.subnet == port.interface.network)
    around = (name for name, rail in rails.items() if rail.subnet and port.interface.ip in rail.subnet)
    return next(exact, None) or next(around, None)


def _rail(subnet: IPv4Network, ports: Sequence[SeenPort]) -> Rail:
    return Rail(
        subnet=subnet,
        point_to_point=len(ports) == 2 and subnet.prefixlen >= POINT_TO_POINT_PREFIX,
        speed=_common([port.speed_gbps for port in ports]),
    )


def _still_a_cable(name: str, rail: Rail, nodes: Mapping[str, Node]) -> Rail:
    """Return a rail as no cable any more, where it does not have two ends."""
    ends = sum(port.rail == name for node in nodes.values() for port in node.ports)
    return rail.model_copy(update={"point_to_point": False}) if rail.subnet and ends not in (0, 2) else rail


def _node(sighting: Sighting, rails: Mapping[str, Rail]) -> Node:
    ports = tuple(
        Port(netdev=port.netdev, rdma=port.rdma, rdma_port=port.rdma_port, rail=rail, address=port.interface.ip)
        for port in sorted(sighting.ports, key=lambda port: port.netdev)
        if (rail := _rail_of(port, rails))
    )
    return Node(host=sighting.host, login=sighting.login, ports=ports, gpus=sighting.gpus)


def _kept(sighting: Sighting, existing: Cluster, name: str, node: Node) -> Node:
    """Return a seen node with what only the file can know of it, and with what was not read this time."""
    filed = existing.nodes.get(name)
    if filed is None:
        return node
    seen = {port.netdev: port for port in node.ports}
    ports = [
        seen.pop(port.netdev, port)
        for port in filed.ports
        if port.netdev in seen or _stays(sighting, port, existing.rails[port.rail])
    ]
    gpus = filed.gpus if GPUS in sighting.unknown else node.gpus
    return filed.model_copy(update={"ports": (*ports, *seen.values()), "gpus": gpus})


def _stays(sighting: Sighting, port: Port, rail: Rail) -> bool:
    """Say whether a port of the file that was not seen on a rail stays: nobody knows better, or it is still there."""
    here = any(one.ip == port.address for one in sighting.addresses.get(port.netdev, ()))
    return here or PORTS in sighting.unknown or rail.subnet is None


def _lost_ends(sighting: Sighting, existing: Cluster | None, name: str | None) -> Iterator[Port]:
    """Yield the ports of cables that are gone; a cable without a subnet needs both ends to be one."""
    if existing and name and PORTS not in sighting.unknown:
        for port in existing.nodes[name].ports:
            if existing.rails[port.rail].subnet is None and port.netdev not in sighting.addresses:
                yield port


def _common_login(nodes: Mapping[str, Node]) -> tuple[Login, dict[str, Node]]:
    """Move what all logins agree on up to the cluster."""
    user = _common([node.login.user for node in nodes.values()])
    if user is None:
        return Login(), dict(nodes)
    return Login(user=user), {
        name: node.model_copy(update={"login": node.login.model_copy(update={"user": None})})
        for name, node in nodes.items()
    }


def _policy(sightings: Sequence[Sighting], rails: Mapping[str, Rail]) -> Policy:
    """Return the default policy; without RDMA there is nothing to keep lossless and the MTU is what it is."""
    ports = [port for sighting in sightings for port in sighting.ports]
    if any(port.rdma for port in ports):
        return Policy()
    subnets = {rail.subnet for rail in rails.values()}
    sizes = Counter(port.mtu for port in ports if port.interface.network in subnets)
    mtu = sizes.most_common(1)[0][0] if sizes else 1500
    return Policy(pfc=False, ecn=False, host_mtu=min(max(mtu, 1280), 9600))


def _cabled(switches: Mapping[str, Switch], nodes: Mapping[str, Node]) -> dict[str, Switch]:
    """Return the file's switches without the ports whose other end is gone."""
    ends = {(name, port.netdev) for name, node in nodes.items() for port in node.ports}
    return {
        name: switch.model_copy(
            update={"ports": tuple(port for port in switch.ports if (port.node, port.netdev) in ends)}
        )
        for name, switch in switches.items()
    }


def _switches(
    sightings: Sequence[Sighting],
    names: Sequence[str],
    nodes: Mapping[str, Node],
    asked: Sequence[str],
    switches: dict[str, Switch],
) -> dict[str, Switch]:
    """Add the switches that were asked for, and the Nexus switches that LLDP shows, with the ports that LLDP shows."""
    for host in asked:
        if not any(host in (name, switch.host) for name, switch in switches.items()):
            switches[free_name(host, switches)] = Switch(host=host)
    for name, sighting in zip(names, sightings, strict=True):
        rails = {port.netdev for port in nodes[name].ports}
        for neighbour in sighting.neighbours:
            if neighbour.netdev in rails:
                _add_port(switches, name, neighbour)
    return switches


def _add_port(switches: dict[str, Switch], node: str, neighbour: SeenNeighbour) -> None:
    """Add a switch's port, where neither the port nor the other end of its cable is in use already."""
    found = _switch_of(switches, neighbour)
    if found is None:
        return
    switch = switches[found]
    ends = {(port.node, port.netdev) for other in switches.values() for port in other.ports}
    if (node, neighbour.netdev) not in ends and neighbour.port not in {port.name for port in switch.ports}:
        port = SwitchPort(name=neighbour.port, node=node, netdev=neighbour.netdev)
        switches[found] = switch.model_copy(update={"ports": (*switch.ports, port)})


def _switch_of(switches: dict[str, Switch], neighbour: SeenNeighbour) -> str | None:
    """Return the name of the switch that a neighbour is, adding it where it is a Nexus not yet known."""
    system = name_from(neighbour.system.partition(".")[0])
    for name, switch in switches.items():
        if name == system or switch.host in (neighbour.system, *neighbour.addresses):
            return name
    if not system or not re.search(r"NX-OS|Nexus", neighbour.description, re.IGNORECASE):
        return None
    switches[system] = next(_hosted(neighbour.addresses), None) or Switch(host=system)
    return system


def _hosted(hosts: Sequence[str]) -> Iterator[Switch]:
    """Yield a switch for each host that can be one."""
    for host in hosts:
        try:
            yield Switch(host=host)
        except ValidationError:
            continue


def _common(values: Sequence[T | None]) -> T | None:
    """Return the one value that all have, or None."""
    return values[0] if values and all(value == values[0] for value in values) else None
