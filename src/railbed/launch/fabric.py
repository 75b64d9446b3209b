"""What the fabric asks of NCCL, UCX and Gloo on each node, as environment, with the reason for every line.

Nothing is guessed: device, port and rail are the cluster file's, the GID is found by type and address in what the node
says, the traffic class is the policy's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from railbed.fleet import Fleet, survey
from railbed.launch.rdma import Obstacle, RdmaPath, rdma_paths
from railbed.model.cluster import LOCAL_HOST, Cluster, Node, Policy, Port
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Unknown
from railbed.probes import infiniband, limits

FACTS: tuple[Probe[Any], ...] = (infiniband.PROBE, limits.PROBE)
"""What must be read from the nodes."""
TIMEOUT_EXPONENT, RETRIES = 20, 7
"""A packet is waited for 4.096 µs · 2^20 = 4.3 s, seven times: half of the minute that a collective waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvLine:
    """One setting of a node's ranks, and why it is so."""

    name: str
    value: str
    reason: str
    variable: bool = True
    """False for what is no environment variable but belongs to it: a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFabric:
    """How a node's ranks use the fabric."""

    lines: tuple[EnvLine, ...] = ()
    obstacle: str = ""
    """Why there is no RDMA; empty where there is."""
    remedy: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables alone."""
        return {line.name: line.value for line in self.lines if line.variable}


async def read_facts(cluster: Cluster, fleet: Fleet, only: Collection[str] | None = None) -> dict[str, DeviceFacts]:
    """Ask the nodes, all or some, for what `fabric_of` needs."""
    found: dict[str, DeviceFacts] = {}
    async with aclosing(survey(fleet, cluster, FACTS, only=only)) as answers:
        async for facts in answers:
            found[facts.device] = facts
    return found


def fabric_environment(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> Mapping[str, Sequence[EnvLine]]:
    """Return the lines of each node."""
    return {name: node.lines for name, node in fabric_of(cluster, facts).items()}


def fabric_of(cluster: Cluster, facts: Mapping[str, DeviceFacts]) -> dict[str, NodeFabric]:
    """Return how each node uses the fabric."""
    return {
        name: _node_fabric(cluster.nodes[name], paths, cluster.policy, facts.get(name))
        for name, paths in rdma_paths(cluster, facts).items()
    }


def without_rdma(cluster: Cluster, fabric: Mapping[str, NodeFabric]) -> str:
    """Return a node that lacks the RDMA which the cluster file gives it; empty where there is none."""
    promised = (name for name, node in cluster.nodes.items() if any(port.rdma for port in node.ports))
    return next((name for name in promised if name in fabric and fabric[name].obstacle), "")


def _node_fabric(
    node: Node, paths: Sequence[RdmaPath] | Obstacle, policy: Policy, facts: DeviceFacts | None
) -> NodeFabric:
    if isinstance(paths, Obstacle):
        lines = (*_nccl_without_rdma(node, paths), *_gloo(node))
        return NodeFabric(lines=lines, obstacle=paths.why, remedy=paths.remedy)
    return NodeFabric(lines=(*_nccl(paths, policy), *_ucx(paths, policy), *_gloo(node), *_memlock(facts)))


def _nccl(paths: Sequence[RdmaPath], policy: Policy) -> list[EnvLine]:
    devices, rails = _devices(paths), _rails(paths)
    lines = [
        EnvLine(
            name="NCCL_IB_HCA",
            value=f"={devices}",
            reason=f"the RDMA port of {rails}; without the = mlx5_1 would stand for mlx5_10, too",
        ),
        EnvLine(name="NCCL_NET", value="IB", reason="without RDMA it fails and says so; it would take TCP silently"),
        *_nccl_gid(paths),
    ]
    if _is_roce(paths):
        lines.append(
            EnvLine(name="NCCL_IB_TC", value=str(policy.traffic_class), reason=_marking(policy, "NCCL's is 0"))
        )
    wait = f"{4.096e-6 * 2**TIMEOUT_EXPONENT:.1f} s, {RETRIES} times, before a lost peer is an error"
    lines += [
        EnvLine(name="NCCL_IB_TIMEOUT", value=str(TIMEOUT_EXPONENT), reason=wait),
        EnvLine(name="NCCL_IB_RETRY_CNT", value=str(RETRIES), reason=wait),
    ]
    if len(paths) > 1:
        lines.append(
            EnvLine(
                name="NCCL_CROSS_NIC", value="0", reason="rails are networks of their own: a ring stays on its rail"
            )
        )
    lines.append(_nccl_socket(paths[0].port))
    return lines


def _nccl_gid(paths: Sequence[RdmaPath]) -> list[EnvLine]:
    if not _is_roce(paths):
        return []
    if (index := _one_index(paths)) is not None:
        return [EnvLine(name="NCCL_IB_GID_INDEX", value=str(index), reason=_gid_reason(paths))]
    family = "AF_INET" if isinstance(paths[0].port.address, IPv4Address) else "AF_INET6"
    reason = f"the index differs between rails ({_indices(paths)}): NCCL looks for it by type and family"
    return [
        EnvLine(name="NCCL_IB_ROCE_VERSION_NUM", value="2", reason=reason),
        EnvLine(name="NCCL_IB_ADDR_FAMILY", value=family, reason=reason),
    ]


def _ucx(paths: Sequence[RdmaPath], policy: Policy) -> list[EnvLine]:
    lines = [
        EnvLine(
            name="UCX_NET_DEVICES", value=_devices(paths), reason=f"the RDMA port of {_rails(paths)}, and no other"
        ),
        EnvLine(name="UCX_TLS", value="rc_v,self", reason="verbs and nothing else: no TCP to fall back to"),
    ]
    if _is_roce(paths):
        if (index := _one_index(paths)) is not None:
            lines.append(EnvLine(name="UCX_IB_GID_INDEX", value=str(index), reason=_gid_reason(paths)))
        marking = _marking(policy, "said, not left to UCX's own")
        lines.append(EnvLine(name="UCX_IB_TRAFFIC_CLASS", value=str(policy.traffic_class), reason=marking))
    wait = f"as NCCL's: 4.3 s, {RETRIES} times, before a lost peer is an error"
    lines += [
        EnvLine(name="UCX_RC_VERBS_TIMEOUT", value="4.3s", reason=wait),
        EnvLine(name="UCX_RC_VERBS_RETRY_COUNT", value=str(RETRIES), reason=wait),
    ]
    if len(paths) > 1:
        reason = f"large messages use {_rails(paths)} together"
        lines.append(EnvLine(name="UCX_MAX_RNDV_RAILS", value=str(len(paths)), reason=reason))
    return lines


def _nccl_without_rdma(node: Node, obstacle: Obstacle) -> list[EnvLine]:
    """Return what a GPU node needs all the same; one without GPUs has no use for NCCL."""
    if not node.gpus:
        return []
    lines = [EnvLine(name="NCCL_IB_DISABLE", value="1", reason=f"no RDMA: {obstacle.why}")]
    return [*lines, _nccl_socket(node.ports[0])] if node.ports else lines


def _nccl_socket(port: Port) -> EnvLine:
    reason = f"where the ranks meet: {port.rail}, by its exact name"
    return EnvLine(name="NCCL_SOCKET_IFNAME", value=f"={port.netdev}", reason=reason)


def _gloo(node: Node) -> list[EnvLine]:
    if node.ports:
        port = node.ports[0]
        reason = (
            f"{port.rail}, where the launch watches who reaches whom; gloo is TCP and guesses by host name otherwise"
        )
        return [EnvLine(name="GLOO_SOCKET_IFNAME", value=port.netdev, reason=reason)]
    if node.host == LOCAL_HOST:
        return [EnvLine(name="GLOO_SOCKET_IFNAME", value="lo", reason="all ranks are on this machine")]
    return []


def _memlock(facts: DeviceFacts | None) -> list[EnvLine]:
    reading = facts.read(limits.PROBE) if facts else Unknown(reason="it was not asked")
    if isinstance(reading, Unknown):
        return [EnvLine(name="memlock", value="unknown", reason=f"not read: {reading.reason}", variable=False)]
    limit = reading.facts.locked_memory
    bound = "which does not bind this account" if reading.facts.may_lock_any else "as far as the account may"
    reason = f"RDMA pins its buffers; ranks raise their limit from {limit.soft} to {limit.hard}, {bound}"
    return [EnvLine(name="memlock", value=str(limit.hard), reason=reason, variable=False)]


def _devices(paths: Sequence[RdmaPath]) -> str:
    return ",".join(path.device for path in paths)


def _rails(paths: Sequence[RdmaPath]) -> str:
    return " and ".join(path.port.rail for path in paths)


def _is_roce(paths: Sequence[RdmaPath]) -> bool:
    return all(path.gid is not None for path in paths)


def _one_index(paths: Sequence[RdmaPath]) -> int | None:
    indices = {path.gid for path in paths}
    return indices.pop() if len(indices) == 1 else None


def _indices(paths: Sequence[RdmaPath]) -> str:
    return ", ".join(f"{path.gid} on {path.port.rail}" for path in paths)


def _gid_reason(paths: Sequence[RdmaPath]) -> str:
    addresses = " and ".join(str(path.port.address) for path in paths)
    return f"the RoCE v2 entry of {addresses} in the node's GID table, found by type"


def _marking(policy: Policy, default: str) -> str:
    ecn = " with ECT(0), so that ECN marks it" if policy.ecn else ""
    return f"DSCP {policy.dscp} of the policy, for the lossless queue,{ecn or ' without ECN'}; {default}"
