"""Joins what was seen of many machines into one cluster: pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import TypeVar

from railbed.discover.sighting import SeenNeighbour, SeenPort, Sighting
from railbed.model.cluster import Cluster, Login, Node, Policy, Port, Rail, Switch, SwitchPort

POINT_TO_POINT_PREFIX = 30

T = TypeVar("T")


def build(
    name: str, sightings: Sequence[Sighting], *, existing: Cluster | None = None, switches: Sequence[str] = ()
) -> Cluster:
    """Return the cluster that was seen. What an existing file says and a machine cannot know stays as it is there."""
    names = _node_names(sightings, existing)
    sightings = [_without(sighting, twice) for sighting, twice in zip(sightings, _taken(sightings), strict=True)]
    rails = _rails(sightings, existing)
    seen = {names[index]: _node(sighting, rails) for index, sighting in enumerate(sightings)}
    login, nodes = _common_login(seen)
    if existing:
        return existing.model_copy(
            update={
                "nodes": {**existing.nodes, **_kept(existing, seen)},
                "rails": {**existing.rails, **rails},
                "switches": _switches(sightings, names, seen, switches, dict(existing.switches)),
            }
        )
    return Cluster(
        name=name,
        login=login,
        policy=_policy(sightings, rails),
        rails=rails,
        nodes=nodes,
        switches=_switches(sightings, names, nodes, switches, {}),
    )


def notices(sightings: Sequence[Sighting]) -> Iterator[str]:
    """Yield what the user should know that the file cannot say."""
    for sighting, taken in zip(sightings, _taken(sightings), strict=True):
        for device in sighting.bare_rdma:
            yield f"{sighting.host}: RDMA device {device} has no IPv4 address on its interface and was left out"
        for port in taken:
            yield (
                f"{sighting.host}: {port.interface.ip} on {port.netdev} is also on another machine and was left out; "
                "is it the same machine twice?"
            )


def _taken(sightings: Sequence[Sighting]) -> list[list[SeenPort]]:
    """Return, for each machine, the ports whose address an earlier machine has already."""
    seen: set[object] = set()
    taken = []
    for sighting in sightings:
        taken.append([port for port in sighting.ports if port.interface.ip in seen])
        seen |= {port.interface.ip for port in sighting.ports}
    return taken


def _without(sighting: Sighting, ports: Sequence[SeenPort]) -> Sighting:
    return replace(sighting, ports=tuple(port for port in sighting.ports if port not in ports))


def _node_names(sightings: Sequence[Sighting], existing: Cluster | None) -> list[str]:
    """Name nodes by their hostnames, keeping the names of the existing file and adding a number where they clash."""
    known = {(node.host, node.login.port): name for name, node in existing.nodes.items()} if existing else {}
    names: list[str] = []
    for sighting in sightings:
        wanted = known.get((sighting.host, sighting.login.port)) or re.sub(r"[^A-Za-z0-9_.-]", "-", sighting.hostname)
        name, number = wanted, 2
        while name in names:
            name, number = f"{wanted}-{number}", number + 1
        names.append(name)
    return names


def _rails(sightings: Sequence[Sighting], existing: Cluster | None) -> dict[str, Rail]:
    """Return a rail for every subnet with RDMA on it; where there is no RDMA, for every subnet that machines share."""
    ports: dict[IPv4Network, list[SeenPort]] = {}
    for sighting in sightings:
        for port in sighting.ports:
            ports.setdefault(port.interface.network, []).append(port)
    with_rdma = {subnet for subnet, group in ports.items() if any(port.rdma for port in group)}
    chosen = with_rdma or {subnet for subnet, group in ports.items() if len(group) > 1}
    known = {rail.subnet: name for name, rail in existing.rails.items()} if existing else {}
    names = (f"rail{number}" for number in range(10_000) if not existing or f"rail{number}" not in existing.rails)
    return {
        known.get(subnet) or next(names): _rail(subnet, ports[subnet], existing, known) for subnet in sorted(chosen)
    }


def _rail(
    subnet: IPv4Network,
    ports: Sequence[SeenPort],
    existing: Cluster | None,
    known: Mapping[IPv4Network | IPv6Network | None, str],
) -> Rail:
    if existing and subnet in known:
        return existing.rails[known[subnet]]
    return Rail(
        subnet=subnet,
        point_to_point=len(ports) == 2 and subnet.prefixlen >= POINT_TO_POINT_PREFIX,
        speed=_common([port.speed_gbps for port in ports]),
    )


def _node(sighting: Sighting, rails: Mapping[str, Rail]) -> Node:
    by_subnet = {rail.subnet: name for name, rail in rails.items()}
    ports = tuple(
        Port(
            netdev=port.netdev,
            rdma=port.rdma,
            rdma_port=port.rdma_port,
            rail=by_subnet[port.interface.network],
            address=port.interface.ip,
        )
        for port in sorted(sighting.ports, key=lambda port: port.netdev)
        if port.interface.network in by_subnet
    )
    return Node(host=sighting.host, login=sighting.login, ports=ports, gpus=sighting.gpus)


def _kept(existing: Cluster, seen: Mapping[str, Node]) -> dict[str, Node]:
    """Return the seen nodes with what only the file can know: login, Python."""
    return {
        name: node.model_copy(update={"login": existing.nodes[name].login, "python": existing.nodes[name].python})
        if name in existing.nodes
        else node
        for name, node in seen.items()
    }


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
            switches[re.sub(r"[^A-Za-z0-9_.-]", "-", host)] = Switch(host=host)
    for name, sighting in zip(names, sightings, strict=True):
        rails = {port.netdev for port in nodes[name].ports}
        for neighbour in sighting.neighbours:
            if neighbour.netdev in rails:
                _add_port(switches, name, neighbour)
    return switches


def _add_port(switches: dict[str, Switch], node: str, neighbour: SeenNeighbour) -> None:
    found = _switch_of(switches, neighbour)
    if found is None:
        return
    switch = switches[found]
    if not any((port.node, port.netdev) == (node, neighbour.netdev) for port in switch.ports):
        port = SwitchPort(name=neighbour.port, node=node, netdev=neighbour.netdev)
        switches[found] = switch.model_copy(update={"ports": (*switch.ports, port)})


def _switch_of(switches: dict[str, Switch], neighbour: SeenNeighbour) -> str | None:
    """Return the name of the switch that a neighbour is, adding it where it is a Nexus not yet known."""
    system = re.sub(r"[^A-Za-z0-9_.-]", "-", neighbour.system.partition(".")[0])
    for name, switch in switches.items():
        if name == system or switch.host in (neighbour.system, *neighbour.addresses):
            return name
    if not system or not re.search(r"NX-OS|Nexus", neighbour.description, re.IGNORECASE):
        return None
    switches[system] = Switch(host=next(iter(neighbour.addresses), system))
    return system


def _common(values: Sequence[T | None]) -> T | None:
    """Return the one value that all have, or None."""
    return values[0] if values and all(value == values[0] for value in values) else None
