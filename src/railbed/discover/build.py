"""Joins what was seen of many machines into one cluster: pure.

Unchanged machines must give the file that they gave before, in whatever order they are named. So what the file says and
no machine denies stands first, then machines come by their hosts, and only what stands in the file is in the way of
something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from railbed.discover.cables import switches_of
from railbed.discover.claims import End, settle
from railbed.discover.machine import Machine, machines_of
from railbed.discover.names import in_order
from railbed.discover.rails import common, rails_of
from railbed.discover.rails import notices as notices_of_rails
from railbed.discover.sighting import GPUS, PORTS, SeenNeighbour, Sighting
from railbed.model.cluster import Cluster, Node, Policy, Port, Rail


def build(
    name: str, sightings: Sequence[Sighting], *, existing: Cluster | None = None, switches: Sequence[str] = ()
) -> Cluster:
    """Return the cluster that was seen. What an existing file says and a machine cannot know stays as it is there."""
    machines = machines_of(sightings, existing)
    rails, policy = rails_of(machines, existing)
    ports = _without_half_cables(settle(machines, rails, existing).ports, rails)
    new = _new_nodes(sightings, machines)
    cluster = existing or _new_cluster(name, new, machines, policy)
    nodes = {**new, **cluster.nodes}
    seen = {machine.name: machine.sighting for machine in machines}
    return cluster.model_copy(
        update={
            "rails": {name: _still_a_cable(name, rail, ports) for name, rail in rails.items()},
            "nodes": {name: _node(name, node, ports, seen.get(name)) for name, node in nodes.items()},
            "switches": switches_of(cluster.switches, switches, _heard(machines, ports), ports),
        }
    )


def notices(sightings: Sequence[Sighting], existing: Cluster | None = None) -> Iterator[str]:
    """Yield what the user should know that the file cannot say."""
    machines = machines_of(sightings, existing)
    hosts = {name: node.host for name, node in existing.nodes.items()} if existing else {}
    hosts |= {machine.name: machine.sighting.host for machine in machines}
    for machine in machines:
        yield from (f"{machine.sighting.host}: {text}" for text in _notices_of(machine))
    yield from notices_of_rails(machines, existing)
    rails, _ = rails_of(machines, existing)
    for (node, netdev), (port, (owner, other)) in settle(machines, rails, existing).lost.items():
        question = "do two interfaces have one address" if owner == node else "is it the same machine twice"
        yield f"{hosts[node]}: {netdev} was left out: {port.address} is on {other} of {hosts[owner]}; {question}?"


def _notices_of(machine: Machine) -> Iterator[str]:
    sighting, filed = machine.sighting, machine.filed.ports if machine.filed else ()
    for part, reason in sighting.unknown.items():
        fate = "stays as it is in the file" if machine.filed else "was left out"
        yield f"what {part} it has could not be read and {fate}: {reason}"
    for text in sighting.left_out:
        yield f"{text} cannot stand in a cluster file and was left out"
    for device in sorted({*sighting.bare_rdma} - {port.rdma for port in filed}):
        yield f"RDMA device {device} has no IPv4 address on its interface and was left out"
    for port in machine.kept:
        if PORTS not in sighting.unknown and port.netdev not in sighting.addresses:
            yield f"{port.netdev} is gone; the file keeps it, as the cable {port.rail} has two ends"


def _still_a_cable(name: str, rail: Rail, ports: Mapping[End, Port]) -> Rail:
    """Return a rail with a subnet as no cable where it does not have two ends."""
    two = sum(port.rail == name for port in ports.values()) == 2
    return rail if two or rail.subnet is None else rail.model_copy(update={"point_to_point": False})


def _without_half_cables(ports: Mapping[End, Port], rails: Mapping[str, Rail]) -> dict[End, Port]:
    """Return the ports without those of a cable whose other end lost its address; only a subnet makes a rail of one."""
    ends = Counter(port.rail for port in ports.values())
    return {end: port for end, port in ports.items() if rails[port.rail].subnet or ends[port.rail] == 2}


def _new_nodes(sightings: Sequence[Sighting], machines: Sequence[Machine]) -> dict[str, Node]:
    """Return the machines that the file does not have, in the order they were given."""
    names = {machine.sighting.place: machine.name for machine in machines if machine.filed is None}
    new = [sighting for sighting in sightings if sighting.place in names]
    return {names[sighting.place]: Node(host=sighting.host, login=sighting.login) for sighting in new}


def _node(name: str, node: Node, ports: Mapping[End, Port], sighting: Sighting | None) -> Node:
    """Return a node with its ports, those of the file in their order there, and with its GPUs where they were read."""
    own = {netdev: port for (owner, netdev), port in ports.items() if owner == name}
    filed = [port.netdev for port in node.ports if port.netdev in own]
    order = [*filed, *sorted(own.keys() - {*filed}, key=in_order)]
    gpus = node.gpus if sighting is None or GPUS in sighting.unknown else sighting.gpus
    return node.model_copy(update={"ports": tuple(own[netdev] for netdev in order), "gpus": gpus})


def _heard(machines: Sequence[Machine], ports: Mapping[End, Port]) -> dict[End, list[SeenNeighbour]]:
    """Return the neighbours of each port on a rail."""
    heard: dict[End, list[SeenNeighbour]] = {}
    for machine in machines:
        for neighbour in machine.sighting.neighbours:
            if (machine.name, neighbour.netdev) in ports:
                heard.setdefault((machine.name, neighbour.netdev), []).append(neighbour)
    return heard


def _new_cluster(name: str, nodes: Mapping[str, Node], machines: Sequence[Machine], policy: Policy) -> Cluster:
    """Return a cluster of bare nodes; the user that all logins name moves up to the cluster's login."""
    login = machines[0].sighting.common_login
    user = common([node.login.user for node in nodes.values()])
    if user is not None:
        login = login.model_copy(update={"user": user})
        nodes = {
            name: node.model_copy(update={"login": node.login.model_copy(update={"user": None})})
            for name, node in nodes.items()
        }
    return Cluster(name=name, login=login, policy=policy, nodes=nodes)
