"""Joins the observations of many machines into one cluster: a pure function.

Unchanged machines must give the same file as before, in any order. So entries of the existing file
that no machine contradicts come first, then machines sorted by host, and only entries of the file can displace others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from railbed.discover.allocation import End, allocate
from railbed.discover.cables import SwitchObservation, sightings, switches_of
from railbed.discover.machine import DiscoveredMachine, in_order, machines_of
from railbed.discover.observation import GPUS, PORTS, Observation
from railbed.discover.rails import common, rails_of
from railbed.discover.rails import notices as notices_of_rails
from railbed.model.cabling import Neighbour
from railbed.model.cluster import Cluster, Node, Policy, Port, Rail


def build(
    name: str,
    observations: Sequence[Observation],
    *,
    existing: Cluster | None = None,
    switches: Sequence[str] = (),
    switch_observations: Mapping[str, SwitchObservation] | None = None,
) -> Cluster:
    """Return the observed cluster. Settings that only a file can contain are taken from the existing file."""
    machines = machines_of(observations, existing)
    rails, policy = rails_of(machines, existing)
    ports = _without_half_cables(allocate(machines, rails, existing).ports, rails)
    new = _new_nodes(observations, machines)
    cluster = existing or _new_cluster(name, new, machines, policy)
    nodes = {**new, **cluster.nodes}
    observed = {machine.name: machine.observation for machine in machines}
    neighbours = sightings(switch_observations or {}, machines, ports) | _neighbours(machines, ports)
    return cluster.model_copy(
        update={
            "rails": {name: _still_a_cable(name, rail, ports) for name, rail in rails.items()},
            "nodes": {name: _node(name, node, ports, observed.get(name)) for name, node in nodes.items()},
            "switches": switches_of(cluster.switches, switches, neighbours, ports, nodes),
        }
    )


def notices(observations: Sequence[Observation], existing: Cluster | None = None) -> Iterator[str]:
    """Yield notices for the user about what the file cannot express."""
    machines = machines_of(observations, existing)
    hosts = {name: node.host for name, node in existing.nodes.items()} if existing else {}
    hosts |= {machine.name: machine.observation.host for machine in machines}
    for machine in machines:
        yield from (f"{machine.observation.host}: {text}" for text in _notices_of(machine))
    yield from notices_of_rails(machines, existing)
    rails, _ = rails_of(machines, existing)
    for (node, netdev), (port, (owner, other)) in allocate(machines, rails, existing).lost.items():
        question = "do two interfaces have the same address" if owner == node else "is it the same machine twice"
        yield f"{hosts[node]}: {netdev} was left out: {port.address} is on {other} of {hosts[owner]}; {question}?"


def _notices_of(machine: DiscoveredMachine) -> Iterator[str]:
    observation, filed = machine.observation, machine.filed.rdma_ports if machine.filed else ()
    for part, reason in observation.unknown.items():
        fate = "the file keeps its entries" if machine.filed else "they were left out"
        yield f"its {part} could not be read: {reason}; {fate}"
    for text in observation.left_out:
        yield f"{text} cannot be written in a cluster file and was left out"
    for device in sorted({*observation.bare_rdma} - {port.rdma for port in filed}):
        yield (
            f"RDMA device {device} has no IPv4 address on its interface and was left out; "
            "InfiniBand without IPoIB goes under `hcas` by hand"
        )
    for port in machine.retained:
        if PORTS not in observation.unknown and port.netdev not in observation.addresses:
            yield f"{port.netdev} is gone; the file keeps it, as the cable {port.rail} has two ends"


def _still_a_cable(name: str, rail: Rail, ports: Mapping[End, Port]) -> Rail:
    """Return a rail without `point_to_point` if it has a subnet and does not have two ends."""
    two = sum(port.rail == name for port in ports.values()) == 2
    return rail if two or rail.subnet is None else rail.model_copy(update={"point_to_point": False})


def _without_half_cables(ports: Mapping[End, Port], rails: Mapping[str, Rail]) -> dict[End, Port]:
    """Drop the port of a cable whose other end lost its address; only a rail with a subnet can have one port."""
    ends = Counter(port.rail for port in ports.values())
    return {end: port for end, port in ports.items() if rails[port.rail].subnet or ends[port.rail] == 2}


def _new_nodes(observations: Sequence[Observation], machines: Sequence[DiscoveredMachine]) -> dict[str, Node]:
    """Return the machines that are new to the file, in the order of the arguments."""
    names = {machine.observation.location: machine.name for machine in machines if machine.filed is None}
    new = [observation for observation in observations if observation.location in names]
    return {names[observation.location]: Node(host=observation.host, login=observation.login) for observation in new}


def _node(name: str, node: Node, ports: Mapping[End, Port], observation: Observation | None) -> Node:
    """Return a node with its ports, those of the file first and in its order, and its GPUs if they were read."""
    own = {netdev: port for (owner, netdev), port in ports.items() if owner == name}
    filed = [port.netdev for port in node.ports if port.netdev in own]
    order = [*filed, *sorted(own.keys() - {*filed}, key=in_order)]
    gpus = node.gpus if observation is None or GPUS in observation.unknown else observation.gpus
    return node.model_copy(update={"ports": tuple(own[netdev] for netdev in order), "gpus": gpus})


def _neighbours(machines: Sequence[DiscoveredMachine], ports: Mapping[End, Port]) -> dict[End, tuple[Neighbour, ...]]:
    """Return the neighbours of each port on a rail."""
    return {
        (machine.name, netdev): neighbours
        for machine in machines
        for netdev, neighbours in machine.observation.neighbours.items()
        if (machine.name, netdev) in ports
    }


def _new_cluster(
    name: str, nodes: Mapping[str, Node], machines: Sequence[DiscoveredMachine], policy: Policy
) -> Cluster:
    """Return a cluster of nodes without ports; a user that all logins share moves to the cluster's login."""
    login = machines[0].observation.common_login
    user = common([node.login.user for node in nodes.values()])
    if user is not None:
        login = login.model_copy(update={"user": user})
        nodes = {
            name: node.model_copy(update={"login": node.login.model_copy(update={"user": None})})
            for name, node in nodes.items()
        }
    return Cluster(name=name, login=login, policy=policy, nodes=nodes)
