"""Whether RDMA can use a port, and if not, why: from the cluster file and the facts of the nodes.

`rdma_port` decides about a single port, for every verb. `rdma_paths` adds what only a whole cluster shows:
RDMA needs both ends, so a rail that one node cannot use is used by none. If no rail reaches all nodes, as in a ring of
three, each pair of nodes needs one of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from railbed.model.cluster import Cluster, Node, Port
from railbed.model.reading import DeviceFacts, Known, Unknown
from railbed.parsing.gids import Gid, RoceVersion, common_version, gid_index, types_of_address
from railbed.probes import infiniband, limits
from railbed.probes.infiniband import RdmaDevices

NO_RDMA_IN_FILE = "no RDMA device in the cluster file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPath:
    """A port that RDMA can use."""

    port: Port
    gid: int | None
    """Index of its RoCE GID; None on InfiniBand."""
    version: RoceVersion = 2
    """RoCE version of that GID."""

    @property
    def device(self) -> str:
        """Return `device:port`, as NCCL and UCX expect it."""
        return f"{self.port.rdma}:{self.port.rdma_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a port, or a node, cannot use RDMA."""

    why: str
    remedy: str = ""


def roce_versions(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> dict[str, RoceVersion]:
    """Return the RoCE version that RDMA uses on each rail: a rail is one subnet or cable, so v1 can do if it must."""
    types: dict[str, list[frozenset[str]]] = {rail: [] for rail in cluster.rails}
    for name, port in cluster.ports():
        reading = facts[name].read(infiniband.PROBE) if name in facts else None
        device = reading.facts.devices.get(port.rdma or "") if isinstance(reading, Known) else None
        own = device.ports.get(str(port.rdma_port)) if device else None
        if own:
            types[port.rail].append(types_of_address(own.gids, port.address))
    return {rail: common_version(of_ports) for rail, of_ports in types.items()}


def rdma_port(port: Port, facts: DeviceFacts | None, version: RoceVersion) -> RdmaPath | Obstacle:
    """Return how RDMA uses a port with the RoCE version of its rail, or why it cannot; `facts` are its node's."""
    if port.rdma is None:
        return Obstacle(
            why=NO_RDMA_IN_FILE,
            remedy=f"name its RDMA device as `rdma` of {port.netdev} in the cluster file; Soft-RoCE adds one: "
            f"`rdma link add rxe0 type rxe netdev {shlex.quote(port.netdev)}`",
        )
    if facts is None or (reason := _silence(facts)):
        return Obstacle(why=f"not read: {reason if facts else 'its node was not queried'}")
    reading = facts.read(infiniband.PROBE)
    if isinstance(reading, Unknown):
        return Obstacle(why=f"its RDMA devices could not be read: {reading.reason}", remedy=reading.remedy)
    path = _path_on(port, reading.facts, version)
    return path if isinstance(path, Obstacle) else _memlock_obstacle(facts) or path


def rdma_paths(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> dict[str, list[RdmaPath] | Obstacle]:
    """Return the ports that RDMA can use on each node, or why none. Nodes that did not answer do not block others."""
    silent = {name: why for name in cluster.nodes if (why := _silence(facts.get(name)))}
    nodes = {name: node for name, node in cluster.nodes.items() if name not in silent}
    versions = roce_versions(cluster, facts)
    ports = {
        name: [rdma_port(port, facts[name], versions[port.rail]) for port in node.rdma_ports]
        for name, node in nodes.items()
    }
    blocked = {name: obstacle for name in nodes if (obstacle := _node_obstacle(nodes[name], ports[name]))}
    rails = _shared_rails(cluster, ports) or _rails_of_pairs(ports)
    answers: dict[str, list[RdmaPath] | Obstacle] = {}
    for name in cluster.nodes:
        if name in silent:
            answers[name] = Obstacle(why=f"not read: {silent[name]}")
        elif name in blocked:
            answers[name] = blocked[name]
        elif blocked:
            answers[name] = _other_end(*next(iter(blocked.items())))
        else:
            paths = [path for path in ports[name] if isinstance(path, RdmaPath) and path.port.rail in rails]
            answers[name] = paths or _no_common_rail(cluster, ports)
    return answers


def _silence(facts: DeviceFacts | None) -> str:
    """Return why nothing was read from a node; empty if it answered."""
    if facts is None:
        return "it was not queried"
    return facts.failure.reason if facts.failure and not facts.failure.connected else ""


def _path_on(port: Port, devices: RdmaDevices, version: RoceVersion) -> RdmaPath | Obstacle:
    device = devices.devices.get(port.rdma or "")
    rdma = device.ports.get(str(port.rdma_port)) if device else None
    if device is None or rdma is None:
        there = ", ".join(devices.devices) or "none"
        return Obstacle(
            why=f"no RDMA device {port.rdma} port {port.rdma_port} on the node (there: {there})",
            remedy=f"load the driver of {port.netdev}'s card, or correct `rdma` of {port.netdev} in the cluster file",
        )
    if device.node_type == "RNIC":
        return Obstacle(why=f"{port.rdma} is iWARP, which NCCL and UCX do not support")
    if rdma.state not in (None, "ACTIVE"):
        return Obstacle(
            why=f"{port.rdma} port {port.rdma_port} is {rdma.state}",
            remedy="look at its cable and the subnet manager: `railbed check subnet_manager`"
            if port.is_hca
            else f"ip link set dev {shlex.quote(port.netdev)} up",
        )
    if rdma.link_layer == "InfiniBand":
        return RdmaPath(port=port, gid=None)
    if port.is_hca:
        return Obstacle(
            why=f"{port.rdma} port {port.rdma_port} is {rdma.link_layer or 'of an unknown link layer'}, not InfiniBand",
            remedy="write it under `ports` of the cluster file, with its interface and address, or make the port "
            "InfiniBand (`mlxconfig`, LINK_TYPE)",
        )
    return _gid_path(port, rdma.gids, version)


def _gid_path(port: Port, gids: Sequence[Gid], version: RoceVersion) -> RdmaPath | Obstacle:
    index = gid_index(gids, port.address, version)
    if index is not None:
        return RdmaPath(port=port, gid=index, version=version)
    if types_of_address(gids, port.address):
        return Obstacle(
            why=f"{port.rdma} has only RoCE v1 for {port.address}, and another port of {port.rail} only RoCE v2",
            remedy="use cards on this rail that have a RoCE version in common: ConnectX-3 without Pro has only v1, "
            "Soft-RoCE only v2",
        )
    return Obstacle(
        why=f"{port.rdma} has no RoCE v{version} GID for {port.address}",
        remedy=f"give {port.netdev} the address {port.address}, or correct its `address` in the cluster file",
    )


def _memlock_obstacle(facts: DeviceFacts) -> Obstacle | None:
    """Return why RDMA cannot pin its buffers; a rank raises its own limit up to the hard limit."""
    reading = facts.read(limits.PROBE)
    if isinstance(reading, Unknown) or reading.facts.may_lock_any:
        return None
    hard = reading.facts.locked_memory.hard
    if hard == "unlimited" or hard >= limits.RDMA_LEAST_BYTES:
        return None
    return Obstacle(
        why=f"its processes may lock only {hard} bytes of memory",
        remedy="raise `memlock` of the login user (/etc/security/limits.d), then log in again",
    )


def _node_obstacle(node: Node, ports: Sequence[RdmaPath | Obstacle]) -> Obstacle | None:
    """Return why a node has no RDMA at all; None if at least one of its ports has it."""
    if not node.rdma_ports:
        return Obstacle(why="no port on a rail in the cluster file")
    if any(isinstance(path, RdmaPath) for path in ports):
        return None
    return next(path for path in ports if isinstance(path, Obstacle))


def _shared_rails(cluster: Cluster, ports: Mapping[str, Sequence[RdmaPath | Obstacle]]) -> set[str]:
    """Return the rails that RDMA can use on every node that answered, all with one RoCE version: v2 if any has it.

    NCCL and UCX take one version, or one index, for all devices.
    """
    usable = [{path.port.rail for path in paths if isinstance(path, RdmaPath)} for paths in ports.values()]
    shared = set(cluster.rails).intersection(*usable)
    every = [path for paths in ports.values() for path in paths if isinstance(path, RdmaPath)]
    return shared - {path.port.rail for path in every if path.version == 1} or shared


def _rails_of_pairs(ports: Mapping[str, Sequence[RdmaPath | Obstacle]]) -> set[str]:
    """Return the rails between pairs of nodes, if every pair has one that RDMA can use at both ends; else nothing."""
    pairs = [first & second for first, second in combinations(_usable_rails(ports).values(), 2)]
    return set().union(*pairs) if pairs and all(pairs) else set()


def _usable_rails(ports: Mapping[str, Sequence[RdmaPath | Obstacle]]) -> dict[str, set[str]]:
    """Return the rails that RDMA can use on each node, all with one RoCE version: v2 if any has it."""
    usable = {name: [path for path in paths if isinstance(path, RdmaPath)] for name, paths in ports.items()}
    newest = max((path.version for paths in usable.values() for path in paths), default=2)
    return {name: {path.port.rail for path in paths if path.version == newest} for name, paths in usable.items()}


def _other_end(name: str, obstacle: Obstacle) -> Obstacle:
    return Obstacle(why=f"RDMA needs both ends, and {name} has none: {obstacle.why}", remedy=obstacle.remedy)


def _no_common_rail(cluster: Cluster, ports: Mapping[str, Sequence[RdmaPath | Obstacle]]) -> Obstacle:
    blocked = [
        f"{name}/{port.netdev}: {path.why}"
        for name, paths in ports.items()
        for port, path in zip(cluster.nodes[name].rdma_ports, paths, strict=True)
        if isinstance(path, Obstacle)
    ]
    rails = _usable_rails(ports)
    apart = next((pair for pair in combinations(rails, 2) if not rails[pair[0]] & rails[pair[1]]), ())
    why = f"no rail has RDMA on all nodes ({'; '.join(blocked) or 'they share none'})"
    if blocked or not apart or len(rails) < 3:
        return Obstacle(why=why)
    return Obstacle(
        why=f"no rail has RDMA on all nodes, and {' and '.join(apart)} share none: NCCL, UCX and MPI connect all pairs",
        remedy="connect the nodes through a switch, or each with each (three nodes in a ring); a longer ring has nodes "
        "that are no neighbours",
    )
