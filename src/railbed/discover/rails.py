"""Which networks are rails, and their speed and MTU.

The network that carries SSH is for management if the machines share another one. Rails of an existing file stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import combinations, count
from typing import TypeVar

from railbed.discover.allocation import rail_of
from railbed.discover.machine import DiscoveredMachine
from railbed.discover.observation import ObservedPort
from railbed.model.cluster import Cluster, Policy, Rail

POINT_TO_POINT_PREFIX = 30
MTU_RANGE = (1280, 65535)
POLICY_MTU_RANGE = (1280, 9600)

T = TypeVar("T")
Networks = Mapping[IPv4Network, Sequence[tuple[str, ObservedPort]]]
"""The ports on a network, each with the name of its machine."""


@dataclass(frozen=True, slots=True)
class NetworkRoles:
    """What the networks of machines are used for."""

    rails: Networks
    """New rails."""
    management: Networks
    """Networks that could be rails, if they did not carry SSH."""


def rails_of(machines: Sequence[DiscoveredMachine], existing: Cluster | None) -> tuple[dict[str, Rail], Policy]:
    """Return the file's rails and the new ones, and the file's policy or one that fits the machines."""
    rails = dict(existing.rails) if existing else {}
    new = choose(machines, existing).rails
    policy = existing.policy if existing else _policy(machines, new)
    names = (name for name in (f"rail{number}" for number in count()) if name not in rails)
    added = {name: _rail(subnet, new[subnet], policy) for subnet, name in zip(sorted(new), names, strict=False)}
    return rails | added, policy


def choose(machines: Sequence[DiscoveredMachine], existing: Cluster | None) -> NetworkRoles:
    """Separate rails from the management network, among the networks that no rail of the file covers."""
    candidates = _candidates(machines, existing)
    carrying = {
        subnet: members for subnet, members in candidates.items() if any(port.carries_ssh for _, port in members)
    }
    others = {subnet: members for subnet, members in candidates.items() if subnet not in carrying}
    if _has_rails(machines, existing):
        management = carrying
    else:
        management = {subnet: members for subnet, members in carrying.items() if _is_spare(members, others)}
    rails = {subnet: members for subnet, members in candidates.items() if subnet not in management}
    return NetworkRoles(rails=rails, management=management)


def notices(machines: Sequence[DiscoveredMachine], existing: Cluster | None) -> Iterator[str]:
    """Yield why a network that carries SSH is, or is not, a rail, if that may surprise."""
    choice = choose(machines, existing)
    shared = ", ".join(map(str, sorted(choice.rails)))
    if not _has_rails(machines, existing):
        for subnet in sorted(choice.management):
            yield f"{subnet} carries SSH and was left out: the machines share {shared}"
        return
    for subnet, members in sorted(choice.management.items()):
        idle = sorted(
            {name for name, _ in members} - {machine.name for machine in machines if _on_rails(machine, existing)}
        )
        if idle:
            yield f"{', '.join(idle)}: no port on a rail; {subnet}, which carries SSH, can be added to `rails:` by hand"


def _candidates(machines: Sequence[DiscoveredMachine], existing: Cluster | None) -> Networks:
    """Return the networks with RDMA; without any RDMA, those with several ports.

    There are none if the file has rails and a lossless policy: then RDMA is missing.
    """
    rails = existing.rails if existing else {}
    members: dict[IPv4Network, list[tuple[str, ObservedPort]]] = {}
    for machine in machines:
        for port in machine.ports:
            if rail_of(port, rails) is None:
                members.setdefault(port.interface.network, []).append((machine.name, port))
    if any(port.rdma for machine in machines for port in machine.ports):
        return {subnet: group for subnet, group in members.items() if any(port.rdma for _, port in group)}
    if existing and rails and (existing.policy.pfc or existing.policy.ecn):
        return {}
    return {subnet: group for subnet, group in members.items() if len(group) > 1}


def _has_rails(machines: Sequence[DiscoveredMachine], existing: Cluster | None) -> bool:
    return any(_on_rails(machine, existing) for machine in machines)


def _on_rails(machine: DiscoveredMachine, existing: Cluster | None) -> bool:
    """Whether a machine has a port on a rail of the file."""
    return existing is not None and bool(
        machine.retained or any(rail_of(port, existing.rails) for port in machine.ports)
    )


def _is_spare(members: Sequence[tuple[str, ObservedPort]], others: Networks) -> bool:
    """Whether machines can do without a network: any two share another one that is at least as good.

    A network with RDMA is spare only if the others are better: a rail may also carry SSH.
    """
    shared: dict[str, frozenset[IPv4Network]] = {
        name: frozenset(subnet for subnet, group in others.items() if any(name == member for member, _ in group))
        for name, _ in members
    }
    sets = set(shared.values())
    if not all(sets) or any(not mine & theirs for mine, theirs in combinations(sets, 2)):
        return False
    own, theirs = [port for _, port in members], [port for group in others.values() for _, port in group]
    grade = _grade(own, theirs)
    return grade < 0 if any(port.rdma for port in own) else grade <= 0


def _grade(ports: Sequence[ObservedPort], others: Sequence[ObservedPort]) -> int:
    """Return 1 if all the ports are better than all others, -1 if all are worse: by speed, then by MTU."""
    speeds = [port.speed_gbps for port in ports if port.speed_gbps]
    theirs = [port.speed_gbps for port in others if port.speed_gbps]
    by_speed = _compare(speeds, theirs) if speeds and theirs else 0
    return by_speed or _compare([port.mtu for port in ports], [port.mtu for port in others])


def _compare(values: Sequence[float], others: Sequence[float]) -> int:
    return int(min(values) > max(others)) - int(max(values) < min(others))


def _policy(machines: Sequence[DiscoveredMachine], new: Networks) -> Policy:
    """Return the default policy; without RDMA it is not lossless and has the most common MTU."""
    if any(port.rdma for machine in machines for port in machine.ports):
        return Policy()
    mtu = _most_common([_usual_mtu(members) for members in new.values()]) if new else 1500
    return Policy(pfc=False, ecn=False, host_mtu=_within(mtu, POLICY_MTU_RANGE))


def _rail(subnet: IPv4Network, members: Sequence[tuple[str, ObservedPort]], policy: Policy) -> Rail:
    ports = [port for _, port in members]
    return Rail(
        subnet=subnet,
        point_to_point=subnet.prefixlen >= POINT_TO_POINT_PREFIX,
        speed=common([port.speed_gbps for port in ports]),
        mtu=_own_mtu(members, policy),
    )


def _own_mtu(members: Sequence[tuple[str, ObservedPort]], policy: Policy) -> int | None:
    """Return the MTU of a rail if it differs from the policy's; with RDMA, a lower MTU is a fault to be found."""
    mtu = _usual_mtu(members)
    rdma = any(port.rdma for _, port in members)
    agreed = all(_within(port.mtu, MTU_RANGE) == mtu for _, port in members)
    wanted = agreed and mtu > policy.host_mtu if rdma else mtu != policy.host_mtu
    return mtu if wanted else None


def _usual_mtu(members: Sequence[tuple[str, ObservedPort]]) -> int:
    return _most_common([_within(port.mtu, MTU_RANGE) for _, port in members])


def _most_common(sizes: Sequence[int]) -> int:
    """Return the most common size; of equally common ones the largest, so that no working MTU is lowered."""
    counts = Counter(sizes)
    return max(counts, key=lambda size: (counts[size], size))


def _within(mtu: int, limits: tuple[int, int]) -> int:
    return min(max(mtu, limits[0]), limits[1])


def common(values: Sequence[T | None]) -> T | None:
    """Return the value that all have in common, or None."""
    return values[0] if values and all(value == values[0] for value in values) else None
