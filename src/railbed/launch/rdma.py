"""Which ports of which nodes RDMA can use, and why not the others: from the cluster file and what the nodes said.

RDMA needs both ends, so a rail that one node cannot use is used by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from railbed.model.cluster import Cluster, Node, Port
from railbed.model.reading import DeviceFacts, Unknown
from railbed.parsing.gids import rocev2_index
from railbed.probes import infiniband, limits
from railbed.probes.infiniband import RdmaDevices
from railbed.probes.limits import Limits

NO_RDMA_IN_FILE = "no RDMA device in the cluster file"


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPath:
    """A port that RDMA can use."""

    port: Port
    gid: int | None
    """Index of its RoCE v2 GID; None on InfiniBand."""

    @property
    def device(self) -> str:
        """Return `device:port`, as NCCL and UCX want it."""
        return f"{self.port.rdma}:{self.port.rdma_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a port, or a node, cannot use RDMA."""

    why: str
    remedy: str = ""


def rdma_paths(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> dict[str, list[RdmaPath] | Obstacle]:
    """Return what RDMA can use on each node, or why nothing. A node that did not answer holds up no other."""
    silent = {name: why for name in cluster.nodes if (why := _silence(facts.get(name)))}
    nodes = {name: node for name, node in cluster.nodes.items() if name not in silent}
    ports = {name: [_path(port, facts[name]) for port in node.ports] for name, node in nodes.items()}
    bound = {name: stop for name in nodes if (stop := _node_obstacle(nodes[name], facts[name], ports[name]))}
    rails = _shared_rails(cluster, ports)
    found: dict[str, list[RdmaPath] | Obstacle] = {}
    for name in cluster.nodes:
        if name in silent:
            found[name] = Obstacle(why=f"not read: {silent[name]}")
        elif name in bound:
            found[name] = bound[name]
        elif bound:
            found[name] = _other_end(*next(iter(bound.items())))
        else:
            paths = [path for path in ports[name] if isinstance(path, RdmaPath) and path.port.rail in rails]
            found[name] = paths or _no_common_rail(cluster, ports)
    return found


def _silence(facts: DeviceFacts | None) -> str:
    if facts is None:
        return "it was not asked"
    return facts.failure.reason if facts.failure and not facts.failure.connected else ""


def _path(port: Port, facts: DeviceFacts) -> RdmaPath | Obstacle:
    """Return a port as RDMA can use it, or why it cannot."""
    if port.rdma is None:
        return Obstacle(
            why=NO_RDMA_IN_FILE,
            remedy="on cards with RDMA `railbed discover --write` adds it; Soft-RoCE: `rdma link add rxe0 type rxe "
            f"netdev {port.netdev}`, then `railbed discover --write`",
        )
    reading = facts.read(infiniband.PROBE)
    if isinstance(reading, Unknown):
        return Obstacle(why=f"its RDMA devices could not be read: {reading.reason}", remedy=reading.remedy)
    return _path_on(port, reading.facts)


def _path_on(port: Port, devices: RdmaDevices) -> RdmaPath | Obstacle:
    device = devices.devices.get(port.rdma or "")
    found = device.ports.get(str(port.rdma_port)) if device else None
    if device is None or found is None:
        there = ", ".join(devices.devices) or "none"
        return Obstacle(
            why=f"no RDMA device {port.rdma} port {port.rdma_port} on the node (there: {there})",
            remedy="`railbed check rdma_device` says what to do",
        )
    if device.node_type == "RNIC":
        return Obstacle(why=f"{port.rdma} is iWARP, which NCCL and UCX do not speak")
    if found.state not in (None, "ACTIVE"):
        return Obstacle(
            why=f"{port.rdma} port {port.rdma_port} is {found.state}", remedy=f"ip link set dev {port.netdev} up"
        )
    if found.link_layer == "InfiniBand":
        return RdmaPath(port=port, gid=None)
    index = rocev2_index(found.gids, port.address)
    if index is None:
        return Obstacle(
            why=f"{port.rdma} has no RoCE v2 GID for {port.address}",
            remedy="`railbed check gid_rocev2` says what to do",
        )
    return RdmaPath(port=port, gid=index)


def _node_obstacle(node: Node, facts: DeviceFacts, ports: Sequence[RdmaPath | Obstacle]) -> Obstacle | None:
    """Return why a node has no RDMA at all: no port that can, or no memory that may be locked."""
    if not node.ports:
        return Obstacle(why="no port on a rail in the cluster file")
    if not any(isinstance(path, RdmaPath) for path in ports):
        return next(path for path in ports if isinstance(path, Obstacle))
    reading = facts.read(limits.PROBE)
    if isinstance(reading, Unknown) or _may_lock(reading.facts):
        return None
    return Obstacle(
        why=f"its ranks may lock only {reading.facts.locked_memory.hard} bytes of memory",
        remedy="`railbed check memlock` says what to do",
    )


def _may_lock(facts: Limits) -> bool:
    """Say whether RDMA can lock its buffers; a rank raises its own limit as far as the hard one goes."""
    hard = facts.locked_memory.hard
    return bool(facts.may_lock_any) or hard == "unlimited" or hard >= limits.RDMA_LEAST_BYTES


def _shared_rails(cluster: Cluster, ports: Mapping[str, Sequence[RdmaPath | Obstacle]]) -> set[str]:
    """Return the rails that RDMA can use on every node that answered."""
    usable = [{path.port.rail for path in paths if isinstance(path, RdmaPath)} for paths in ports.values()]
    return set(cluster.rails).intersection(*usable)


def _other_end(name: str, obstacle: Obstacle) -> Obstacle:
    return Obstacle(why=f"RDMA needs both ends, and {name} has none: {obstacle.why}", remedy=obstacle.remedy)


def _no_common_rail(cluster: Cluster, ports: Mapping[str, Sequence[RdmaPath | Obstacle]]) -> Obstacle:
    blocked = [
        f"{name}/{port.netdev}: {path.why}"
        for name, paths in ports.items()
        for port, path in zip(cluster.nodes[name].ports, paths, strict=True)
        if isinstance(path, Obstacle)
    ]
    return Obstacle(why=f"no rail has RDMA on all nodes ({'; '.join(blocked) or 'they share none'})")
