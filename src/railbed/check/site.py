"""What a rule sees: the cluster file and the facts side by side, as nodes, ports and rails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from railbed.model.cluster import Cluster, Node, Policy, Port, Rail
from railbed.model.output import Output
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, Known, Unknown

F = TypeVar("F")


class Unread(Exception):
    """Raised by `read` where facts are unknown; the loop around the rule makes it an `unknown` finding."""

    def __init__(self, unknown: Unknown, node: str) -> None:
        super().__init__(unknown.reason)
        self.unknown = unknown
        self.node = node


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node that answered."""

    site: Site
    name: str
    node: Node
    facts: DeviceFacts

    @property
    def subject(self) -> str:
        """Name of the node."""
        return self.name

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.site.cluster.policy

    @property
    def ports(self) -> Iterator[PortView]:
        """Its ports on rails."""
        return (PortView(self, port) for port in self.node.ports)

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe, or end this judgement as unknown."""
        return _known(self.facts.read(probe), self.name).facts

    def again(self, probe: Probe[F]) -> F:
        """Return the second reading of a probe that is read twice."""
        return _known(self.facts.again(probe), self.name).facts

    def output(self, probe: Probe[F]) -> Output:
        """Return the raw output behind the facts, for its times."""
        return _known(self.facts.read(probe), self.name).output

    def outputs(self, probe: Probe[F]) -> tuple[Output, Output]:
        """Return the raw outputs of both readings."""
        return self.output(probe), _known(self.facts.again(probe), self.name).output

    def try_read(self, probe: Probe[F]) -> F | None:
        """Return the facts of a probe, or None where a rule can do without."""
        reading = self.facts.read(probe)
        return reading.facts if isinstance(reading, Known) else None

    def try_again(self, probe: Probe[F]) -> F | None:
        """Return the second reading of a probe, or None where a rule can do without."""
        reading = self.facts.again(probe)
        return reading.facts if isinstance(reading, Known) else None


@dataclass(frozen=True, slots=True)
class PortView:
    """One port of a node that answered."""

    node: NodeView
    port: Port

    @property
    def subject(self) -> str:
        """`node/interface`."""
        return f"{self.node.name}/{self.port.netdev}"

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.node.policy

    @property
    def rail(self) -> Rail:
        """Its rail."""
        return self.node.site.cluster.rails[self.port.rail]

    @property
    def mtu(self) -> int:
        """The MTU that the cluster file gives its rail."""
        return self.node.site.cluster.mtu_of(self.port.rail)

    @property
    def rail_ports(self) -> tuple[PortView, ...]:
        """All ports of its rail on nodes that answered, this one among them."""
        return next(rail.ports for rail in self.node.site.rails if rail.name == self.port.rail)

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe on this port's node, or end this judgement as unknown."""
        return self.node.read(probe)


@dataclass(frozen=True, slots=True)
class RailView:
    """One rail with its ports on nodes that answered."""

    site: Site
    name: str
    rail: Rail
    ports: tuple[PortView, ...]

    @property
    def subject(self) -> str:
        """Name of the rail."""
        return self.name


@dataclass(frozen=True)
class Site:
    """The cluster and everything read from it. Nodes that did not answer are told of once, by the rule `reachable`."""

    cluster: Cluster
    devices: Mapping[str, DeviceFacts]

    @property
    def subject(self) -> str:
        """The cluster as a whole."""
        return "cluster"

    @cached_property
    def nodes(self) -> tuple[NodeView, ...]:
        """Nodes that answered, in the order of the file."""
        return tuple(
            NodeView(self, name, node, self.devices[name])
            for name, node in self.cluster.nodes.items()
            if name in self.devices and not _never_answered(self.devices[name])
        )

    @cached_property
    def rails(self) -> tuple[RailView, ...]:
        """Rails with their ports."""
        ports = [port for node in self.nodes for port in node.ports]
        return tuple(
            RailView(self, name, rail, tuple(port for port in ports if port.port.rail == name))
            for name, rail in self.cluster.rails.items()
        )


def _never_answered(facts: DeviceFacts) -> bool:
    return facts.failure is not None and not facts.failure.connected


def _known(reading: Known[F] | Unknown, node: str) -> Known[F]:
    if isinstance(reading, Unknown):
        raise Unread(reading, node)
    return reading
