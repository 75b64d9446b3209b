"""What rules about ports and rails share: their facts, whether a rule applies, remedies, fixes, and texts for tables.

If every port of a rail has the same value and the cluster file another, the file is the likelier mistake. A remedy must
not break a working rail, so it suggests correcting the file, or checking the switch first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, Protocol, TypeVar

from railbed.model.cluster import Policy
from railbed.model.fix import Fix, Persistence, as_steps, write_value
from railbed.model.probe import Probe
from railbed.model.reading import Known, Unknown
from railbed.probes import infiniband, ip_route, ip_rule
from railbed.probes.gpu import Gpus
from railbed.probes.infiniband import RdmaDevice, RdmaPort
from railbed.rules.judgement import Judgement, skip, unknown
from railbed.rules.rule import Subject
from railbed.rules.site import NodeView, PortView, RailView

V = TypeVar("V", bound=Hashable)


def common_value(port: PortView, value_of: Callable[[PortView], V | None]) -> V | None:
    """Return the value that two or more ports of a rail all have; None if one differs or is not known."""
    counts = port.on_rail(value_of)
    return next(iter(counts)) if len(counts) == 1 and sum(counts.values()) > 1 else None


def write_at_rail(port: PortView, key: str, value: object) -> str:
    """Return the edit that sets a value for the rail of a port."""
    return f"write `{key}: {value}` at {port.port.rail} in the cluster file"


def follow_rail(key: str, value: object) -> str:
    """Return the alternative to changing every port of a rail: an edit of the policy."""
    edit = f"write `{key}: {value}` into `policy:` of the cluster file"
    return f"all ports of the rail have it: if the switch does too, {edit}"


SHOWN = 3


def some(names: Iterable[str], shown: int = SHOWN) -> str:
    """Return the first few names, and how many more there are."""
    names = list(names)
    more = len(names) - shown
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:shown])} and {more} more"


def group_names(values: Mapping[str, V]) -> dict[V, list[str]]:
    """Return the names by value, the rarest value first: that is where the outlier is."""
    groups: dict[V, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return dict(sorted(groups.items(), key=lambda group: len(group[1])))


def no_interface(netdev: str) -> Judgement:
    """Leave a missing interface to the rule `link_up`."""
    return skip(f"no interface {netdev}: see link_up")


F = TypeVar("F")


def rdma_ports(rail: RailView) -> list[PortView]:
    """Return the ports of a rail that have an RDMA device in the cluster file."""
    return [port for port in rail.ports if port.port.rdma is not None]


def read_ports(
    ports: list[PortView], probe: Probe[F]
) -> tuple[list[tuple[PortView, F]], list[tuple[PortView, Unknown]]]:
    """Return the facts of the ports that were read, and why the others were not."""
    readings = [(port, port.node.facts.read(probe)) for port in ports]
    known = [(port, reading.facts) for port, reading in readings if isinstance(reading, Known)]
    return known, [(port, reading) for port, reading in readings if isinstance(reading, Unknown)]


def report_unread(unread: Iterable[tuple[Subject, Unknown]], expected: str) -> Iterator[Judgement]:
    """Yield an unknown for each subject whose facts are missing; the rule `reachable` reports devices that failed."""
    for judged, reading in unread:
        if not reading.device_failed:
            yield unknown(
                expected=expected,
                observed=reading.reason,
                remedy=reading.remedy,
                evidence=reading.evidence,
                subject=judged.subject,
            )


def by_value(values: Mapping[str, object]) -> str:
    """List names by value, `3 on a, c; 5 on b`, the most common value first."""
    holders: dict[object, list[str]] = {}
    for holder, value in values.items():
        holders.setdefault(value, []).append(holder)
    ordered = sorted(holders.items(), key=lambda item: (-len(item[1]), str(item[0])))
    return "; ".join(f"{value} on {some(names)}" for value, names in ordered)


def rdma_name(port: PortView) -> str:
    """Return `device/port`, as the cluster file has it."""
    return f"{port.port.rdma}/{port.port.rdma_port}"


def rdma_device(port: PortView) -> RdmaDevice | None:
    """Return the port's RDMA device from sysfs, or None if it does not exist or sysfs was not read."""
    facts = port.node.try_read(infiniband.PROBE)
    return facts.devices.get(port.port.rdma or "") if facts else None


def rdma_port(port: PortView) -> RdmaPort | None:
    """Return the RDMA port from sysfs, or None if the machine has none; unread facts end as unknown."""
    device = port.read(infiniband.PROBE).devices.get(port.port.rdma or "")
    return device.ports.get(str(port.port.rdma_port)) if device else None


def not_there(port: PortView, expected: str) -> Judgement:
    """Leave a missing device to the rule `rdma_device`."""
    return unknown(expected=expected, observed=f"no {rdma_name(port)} on this node: see rdma_device")


ROUTE_PROBES: tuple[Probe[Any], ...] = (ip_route.PROBE, ip_rule.PROBE)
"""What `routed_devices` reads."""


def routed_devices(port: PortView, destination: IPv4Address | IPv6Address) -> tuple[tuple[str, ...], str] | None:
    """Return the interfaces that packets from a port's address leave through, and the table that decides it.

    None if the routing policy was not read; without a route, there is no interface.
    """
    rules = port.node.try_read(ip_rule.PROBE)
    if rules is None:
        return None
    tables = port.read(ip_route.PROBE).tables
    for rule in rules.applying_to(port.port.address, destination):
        table = tables.get(rule.table or "")
        route = table.towards(destination) if table else None
        ignored = -1 if rule.longest_ignored is None else rule.longest_ignored
        if route and ip_network(route.destination).prefixlen > ignored:
            return route.devices, rule.table or ""
    return (), ""


S = TypeVar("S")
NO_GPU = "no NVIDIA GPU"
NO_RDMA = "no RDMA device in the cluster file"


class Governed(Protocol):
    """A subject to which the lossless policy applies."""

    @property
    def policy(self) -> Policy: ...


def first_of(*reasons: Callable[[S], str]) -> Callable[[S], str]:
    """Return a function that gives the first reason not to judge a subject."""
    return lambda subject: next(filter(None, (reason(subject) for reason in reasons)), "")


def no_rdma(port: PortView) -> str:
    """Return why a rule about RDMA does not apply to a port."""
    return NO_RDMA if port.port.rdma is None else ""


def no_rdma_on_node(node: NodeView) -> str:
    """Return why a rule about RDMA does not apply to a node."""
    return "" if rdma_devices(node) else NO_RDMA


def no_port(node: NodeView) -> str:
    """Return why a rule about rails does not apply to a node."""
    return "" if node.node.ports else "no port on a rail"


def no_peer(port: PortView) -> str:
    """Return why a rule about peers does not apply to a port."""
    peers = port.site.cluster.peers(port.node.name, port.port)
    return "no peer on this rail" if next(iter(peers), None) is None else ""


def no_pfc(subject: Governed) -> str:
    """Return why a rule about pauses does not apply."""
    return "" if subject.policy.pfc else "the policy has PFC off"


def no_ecn(subject: Governed) -> str:
    """Return why a rule about marks and notifications does not apply."""
    return "" if subject.policy.ecn else "the policy has ECN off"


def no_lossless(subject: Governed) -> str:
    """Return why a rule about the lossless priority does not apply."""
    return "" if subject.policy.pfc or subject.policy.ecn else "the policy has PFC and ECN off"


def rdma_devices(node: NodeView) -> tuple[str, ...]:
    """Return the RDMA devices that the cluster file gives a node."""
    return tuple(port.rdma for port in node.node.rdma_ports if port.rdma)


def gpu_obstacle(gpus: Gpus, expected: str) -> Judgement | None:
    """Explain why GPUs cannot be judged: there is none, or the driver does not show it (see `gpu_driver`)."""
    if gpus.none_here:
        return skip(NO_GPU)
    if not gpus.gpus:
        return unknown(
            expected=expected, observed="the driver shows no GPU; see gpu_driver", evidence=gpus.problem or ""
        )
    return None


def load_modules(node: NodeView, modules: Sequence[str]) -> Fix:
    """Load kernel modules, each after those it needs; undoing unloads them in the opposite order."""
    many = "-a " if len(modules) > 1 else ""
    return Fix(
        device=node.name,
        apply=as_steps(f"modprobe {many}{' '.join(modules)}"),
        undo=as_steps(f"modprobe -r {' '.join(reversed(modules))}"),
        persistence=Persistence.BOOT,
    )


def set_value(port: PortView, file: str, *, before: int, after: int, alternative: str = "", note: str = "") -> Fix:
    """Write a value to sysfs, configfs or debugfs, which lose it at reboot; existing connections keep theirs."""
    return Fix(
        device=port.node.name,
        apply=as_steps(write_value(after, file)),
        undo=as_steps(write_value(before, file)),
        persistence=Persistence.BOOT,
        alternative=alternative,
        note=note,
    )
