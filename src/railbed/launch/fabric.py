"""The environment that NCCL, UCX and Gloo need on each node, with the reason for every line.

Nothing is guessed: device, port and rail come from the cluster file, the GID is looked up by type and address in the
node's table, the traffic class is the policy's. RoCE v1, which has none, is used only on rails where a card lacks v2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from itertools import combinations
from typing import Any

from railbed.launch.common_network import MeetingPlace, meeting_places
from railbed.launch.rdma import Obstacle, RdmaPath, rdma_paths, roce_versions
from railbed.model.cluster import LOCAL_HOST, Cluster, Node, Policy
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Unknown
from railbed.probes import infiniband, ip_addr, limits
from railbed.transport.slurm import NO_GRES

FACTS: tuple[Probe[Any], ...] = (infiniband.PROBE, limits.PROBE, ip_addr.PROBE)
"""The probes that `fabric_of` needs."""
TIMEOUT_EXPONENT, RETRIES = 20, 7
"""A lost packet is retried after 4.096 µs · 2^20 = 4.3 s, seven times: half of the minute that a collective waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvLine:
    """One setting of a node's ranks, and its reason."""

    name: str
    value: str
    reason: str
    variable: bool = True
    """False for a limit, which belongs here but is not an environment variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFabric:
    """How a node's ranks use the fabric."""

    lines: tuple[EnvLine, ...] = ()
    obstacle: str = ""
    """Why there is no RDMA; empty if there is."""
    remedy: str = ""
    meeting: MeetingPlace | None = None
    """Where its ranks meet the others; None if it has no port."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables, without the limits."""
        return {line.name: line.value for line in self.lines if line.variable}


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a node's lines depend on besides its RDMA."""

    node: Node
    place: MeetingPlace | None
    policy: Policy
    shared: int | None
    """The most rails between two nodes if each pair has rails of its own; None if all nodes have the same."""


def fabric_environment(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> Mapping[str, Sequence[EnvLine]]:
    """Return the lines of each node."""
    return {name: node.lines for name, node in fabric_of(cluster, facts).items()}


def fabric_of(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> dict[str, NodeFabric]:
    """Return how each node uses the fabric."""
    every, places = rdma_paths(cluster, facts), meeting_places(cluster, facts)
    shared = _most_shared(every)
    fabric = {
        name: _node_fabric(
            _Ground(cluster.nodes[name], places.get(name), cluster.policy, shared), paths, facts.get(name)
        )
        for name, paths in every.items()
    }
    old = [rail for rail, version in roce_versions(cluster, facts).items() if version == 1]
    return {
        name: replace(node, lines=(*node.lines, *_left_out(node, old), *_hidden_gpus(cluster, name)))
        for name, node in fabric.items()
    }


def without_rdma(cluster: Cluster, fabric: Mapping[str, NodeFabric]) -> str:
    """Return a node that has RDMA in the cluster file and cannot use it; empty if there is none."""
    promised = (name for name, node in cluster.nodes.items() if any(port.rdma for port in node.rdma_ports))
    return next((name for name in promised if name in fabric and fabric[name].obstacle), "")


def _most_shared(every: Mapping[str, Sequence[RdmaPath] | Obstacle]) -> int | None:
    """Return the most rails between two nodes if each pair has rails of its own; None if all nodes have the same."""
    rails = [{path.port.rail for path in paths} for paths in every.values() if not isinstance(paths, Obstacle)]
    if len(rails) < 3 or set.intersection(*rails):
        return None
    return max(len(first & second) for first, second in combinations(rails, 2))


def _node_fabric(ground: _Ground, paths: Sequence[RdmaPath] | Obstacle, facts: DeviceFacts | None) -> NodeFabric:
    place, policy, shared = ground.place, ground.policy, ground.shared
    gloo = _gloo(ground.node, place)
    if isinstance(paths, Obstacle):
        lines = (*_nccl_without_rdma(ground.node, place, paths), *gloo)
        return NodeFabric(lines=lines, obstacle=paths.why, remedy=paths.remedy, meeting=place)
    nccl = [*_nccl(paths, policy, in_pairs=shared is not None), *([_nccl_socket(place)] if place else [])]
    return NodeFabric(lines=(*nccl, *_ucx(paths, policy, shared), *gloo, *_memlock(facts)), meeting=place)


def _left_out(fabric: NodeFabric, old: Sequence[str]) -> list[EnvLine]:
    """Name the rails of RoCE v1 that are not used, since others have v2."""
    if not old or "NCCL_IB_TC" not in fabric.environment:
        return []
    reason = "RoCE v1 there, v2 on others: NCCL and UCX take one version for all rails"
    return [EnvLine(name="left out", value=", ".join(old), reason=reason, variable=False)]


def _hidden_gpus(cluster: Cluster, name: str) -> list[EnvLine]:
    """Hide the GPUs of other jobs from a job that has none there: not every site makes Slurm forbid their use."""
    options = cluster.nodes[name].login.over(cluster.login).slurm_options or ()
    if NO_GRES not in options:
        return []
    return [EnvLine(name="CUDA_VISIBLE_DEVICES", value="", reason="the Slurm job has no GPU on this node")]


def _nccl(paths: Sequence[RdmaPath], policy: Policy, *, in_pairs: bool) -> list[EnvLine]:
    devices, rails = _devices(paths), _rails(paths)
    lines = [
        EnvLine(
            name="NCCL_IB_HCA",
            value=f"={devices}",
            reason=f"the RDMA port of {rails}; without the =, mlx5_1 would also match mlx5_10",
        ),
        EnvLine(
            name="NCCL_NET", value="IB", reason="without RDMA it fails with an error, instead of silently using TCP"
        ),
        *_nccl_gid(paths),
    ]
    if _is_roce_v1(paths):
        lines += _service_level("NCCL_IB_SL", policy)
    elif _is_roce(paths):
        lines.append(
            EnvLine(name="NCCL_IB_TC", value=str(policy.traffic_class), reason=_marking(policy, "NCCL's default is 0"))
        )
    wait = f"{4.096e-6 * 2**TIMEOUT_EXPONENT:.1f} s, {RETRIES} times, before a lost peer is an error"
    lines += [
        EnvLine(name="NCCL_IB_TIMEOUT", value=str(TIMEOUT_EXPONENT), reason=wait),
        EnvLine(name="NCCL_IB_RETRY_CNT", value=str(RETRIES), reason=wait),
    ]
    if in_pairs:
        lines += _nccl_in_pairs()
    elif len(paths) > 1:
        lines.append(
            EnvLine(name="NCCL_CROSS_NIC", value="0", reason="rails are separate networks: a ring stays on its rail")
        )
    return lines


def _nccl_in_pairs() -> list[EnvLine]:
    """Return the settings for nodes that are cabled to each other: the card depends on the peer."""
    return [
        EnvLine(
            name="NCCL_IB_SUBNET_AWARE_ROUTING",
            value="1",
            reason="the card in the peer's subnet, not the one with the same number: each peer has its own cable",
        ),
        EnvLine(name="NCCL_NET_PLUGIN", value="none", reason="NCCL's own transport knows about subnets"),
        EnvLine(name="NCCL_IB_MERGE_NICS", value="0", reason="cards that lead to different peers are not one"),
        EnvLine(name="NCCL_CROSS_NIC", value="1", reason="a ring arrives on one card and leaves on another"),
    ]


def _nccl_gid(paths: Sequence[RdmaPath]) -> list[EnvLine]:
    if not _is_roce(paths):
        return []
    if (index := _one_index(paths)) is not None:
        return [EnvLine(name="NCCL_IB_GID_INDEX", value=str(index), reason=_gid_reason(paths))]
    family = "AF_INET" if isinstance(paths[0].port.address, IPv4Address) else "AF_INET6"
    reason = f"the index differs between rails ({_indices(paths)}): NCCL looks it up by type and family"
    return [
        EnvLine(name="NCCL_IB_ROCE_VERSION_NUM", value=str(paths[0].version), reason=reason),
        EnvLine(name="NCCL_IB_ADDR_FAMILY", value=family, reason=reason),
    ]


def _ucx(paths: Sequence[RdmaPath], policy: Policy, shared: int | None) -> list[EnvLine]:
    if _is_roce_v1(paths) and _one_index(paths) is None:
        # Without an index, UCX would take v2 on a card that has both, and it has no variable for the version.
        paths = paths[:1]
    lines = [
        EnvLine(
            name="UCX_NET_DEVICES", value=_devices(paths), reason=f"the RDMA port of {_rails(paths)}, and no other"
        ),
        EnvLine(name="UCX_TLS", value="rc_v,self", reason="verbs only: no TCP to fall back to"),
    ]
    if _is_roce(paths):
        if (index := _one_index(paths)) is not None:
            lines.append(EnvLine(name="UCX_IB_GID_INDEX", value=str(index), reason=_gid_reason(paths)))
        if _is_roce_v1(paths):
            lines += _service_level("UCX_IB_SL", policy)
        else:
            marking = _marking(policy, "set explicitly, since UCX has its own default")
            lines.append(EnvLine(name="UCX_IB_TRAFFIC_CLASS", value=str(policy.traffic_class), reason=marking))
    wait = f"as NCCL's: 4.3 s, {RETRIES} times, before a lost peer is an error"
    lines += [
        EnvLine(name="UCX_RC_VERBS_TIMEOUT", value="4.3s", reason=wait),
        EnvLine(name="UCX_RC_VERBS_RETRY_COUNT", value=str(RETRIES), reason=wait),
    ]
    if shared is not None and _is_roce(paths):
        reason = "only the card in the peer's subnet reaches it: each peer has its own cable"
        lines.append(EnvLine(name="UCX_IB_ROCE_REACHABILITY_MODE", value="local_subnet", reason=reason))
    together = len(paths) if shared is None else shared
    if together > 1:
        reason = f"large messages use {_rails(paths)} together" if shared is None else "so many rails lead to each peer"
        lines.append(EnvLine(name="UCX_MAX_RNDV_RAILS", value=str(together), reason=reason))
    return lines


def _nccl_without_rdma(node: Node, place: MeetingPlace | None, obstacle: Obstacle) -> list[EnvLine]:
    """Return the lines for a GPU node without RDMA; a node without GPUs does not use NCCL."""
    if not node.gpus:
        return []
    lines = [EnvLine(name="NCCL_IB_DISABLE", value="1", reason=f"no RDMA: {obstacle.why}")]
    return [*lines, _nccl_socket(place)] if place else lines


def _nccl_socket(place: MeetingPlace) -> EnvLine:
    reason = f"the interface that ranks join over: {place.network}, by its exact name"
    return EnvLine(name="NCCL_SOCKET_IFNAME", value=f"={place.interface}", reason=reason)


def _gloo(node: Node, place: MeetingPlace | None) -> list[EnvLine]:
    if place:
        reason = (
            f"{place.network}, whose reachability the launch watches; without it gloo, which is TCP, guesses by host "
            "name"
        )
        return [EnvLine(name="GLOO_SOCKET_IFNAME", value=place.interface, reason=reason)]
    if node.host == LOCAL_HOST:
        return [EnvLine(name="GLOO_SOCKET_IFNAME", value="lo", reason="all ranks are on this machine")]
    return []


def _memlock(facts: DeviceFacts | None) -> list[EnvLine]:
    reading = facts.read(limits.PROBE) if facts else Unknown(reason="the node was not read")
    if isinstance(reading, Unknown):
        return [EnvLine(name="memlock", value="unknown", reason=f"not read: {reading.reason}", variable=False)]
    limit = reading.facts.locked_memory
    bound = "which does not apply to this account" if reading.facts.may_lock_any else "as far as the account may"
    reason = f"RDMA pins its buffers; ranks raise their limit from {limit.soft} to {limit.hard}, {bound}"
    return [EnvLine(name="memlock", value=str(limit.hard), reason=reason, variable=False)]


def _devices(paths: Sequence[RdmaPath]) -> str:
    return ",".join(path.device for path in paths)


def _rails(paths: Sequence[RdmaPath]) -> str:
    return " and ".join(path.port.rail for path in paths)


def _is_roce(paths: Sequence[RdmaPath]) -> bool:
    return all(path.gid is not None for path in paths)


def _is_roce_v1(paths: Sequence[RdmaPath]) -> bool:
    return _is_roce(paths) and all(path.version == 1 for path in paths)


def _one_index(paths: Sequence[RdmaPath]) -> int | None:
    indices = {path.gid for path in paths}
    return indices.pop() if len(indices) == 1 else None


def _indices(paths: Sequence[RdmaPath]) -> str:
    return ", ".join(f"{path.gid} on {path.port.rail}" for path in paths)


def _gid_reason(paths: Sequence[RdmaPath]) -> str:
    addresses = " and ".join(str(path.port.address) for path in paths)
    return f"the RoCE v{paths[0].version} entry of {addresses} in the node's GID table, found by type"


def _service_level(name: str, policy: Policy) -> list[EnvLine]:
    if not policy.pfc:
        return []
    reason = "RoCE v1 has no DSCP: the card takes the priority from the service level, and shows it in a VLAN tag only"
    return [EnvLine(name=name, value=str(policy.priority), reason=reason)]


def _marking(policy: Policy, default: str) -> str:
    ecn = " with ECT(0), so that ECN marks it" if policy.ecn else ""
    return f"DSCP {policy.dscp} of the policy, for the lossless queue,{ecn or ' without ECN'}; {default}"
