"""What a rule sees: the cluster file and the facts side by side, as nodes, switches, their ports, cables and rails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from railbed.model.cabling import Cabling, cables
from railbed.model.cluster import Cluster, Node, Policy, Port, Rail, Switch, SwitchPort
from railbed.model.probe import Pairs, Probe
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.rules.rule import Unread

F = TypeVar("F")
V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device that answered."""

    site: Site
    name: str
    facts: DeviceFacts

    @property
    def subject(self) -> str:
        """Name of the device."""
        return self.name

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.site.cluster.policy

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
        """Return the facts of a probe, or None if they are unknown: for rules that can do without."""
        reading = self.facts.read(probe)
        return reading.facts if isinstance(reading, Known) else None

    def try_again(self, probe: Probe[F]) -> F | None:
        """Return the second reading of a probe, or None if it is unknown: for rules that can do without."""
        reading = self.facts.again(probe)
        return reading.facts if isinstance(reading, Known) else None


@dataclass(frozen=True, slots=True)
class NodeView(DeviceView):
    """One node that answered."""

    node: Node

    @property
    def is_in_slurm_job(self) -> bool:
        """Whether it is reached through a Slurm job, which sets the limits of everything that runs there."""
        return self.node.login.over(self.site.cluster.login).slurm_job is not None

    @property
    def ports(self) -> Iterator[PortView]:
        """Its ports on rails."""
        return (PortView(self, port) for port in self.node.ports)


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

    def on_rail(self, value_of: Callable[[PortView], V]) -> Mapping[V | None, int]:
        """Return how many ports of its rail have each value, this one included; None counts those not read."""
        return self.node.site.count_on_rail(self.port.rail, value_of)

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe on this port's node, or end this judgement as unknown."""
        return self.node.read(probe)


@dataclass(frozen=True, slots=True)
class SwitchView(DeviceView):
    """One switch that answered."""

    switch: Switch

    @property
    def ports(self) -> Iterator[SwitchPortView]:
        """Its ports that nodes are cabled to."""
        return (SwitchPortView(self, port) for port in self.switch.ports)


@dataclass(frozen=True, slots=True)
class SwitchPortView:
    """One port of a switch that answered."""

    switch: SwitchView
    port: SwitchPort

    @property
    def subject(self) -> str:
        """`switch/port`."""
        return f"{self.switch.name}/{self.port.name}"

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.switch.policy

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe on this port's switch, or end this judgement as unknown."""
        return self.switch.read(probe)


@dataclass(frozen=True, slots=True)
class CableView:
    """The cable between a port of a node and a port of a switch that both answered."""

    port: PortView
    switch_port: SwitchPortView

    @property
    def subject(self) -> str:
        """`node/interface`: findings about a cable are shown with the node's port."""
        return self.port.subject

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.port.policy


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
    """The cluster and everything read from it. Only the rule `reachable` reports devices that did not answer."""

    cluster: Cluster
    devices: Mapping[str, DeviceFacts]
    runs: Mapping[str, str] = field(default_factory=dict)
    """Names of the runs in progress that were started here, by the names of their jobs on the nodes."""
    _counted: dict[tuple[str, Callable[[PortView], object]], Counter[Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def subject(self) -> str:
        """The cluster as a whole."""
        return "cluster"

    @cached_property
    def nodes(self) -> tuple[NodeView, ...]:
        """Nodes that answered, in the order of the file."""
        return tuple(
            NodeView(self, name, self.devices[name], node)
            for name, node in self.cluster.nodes.items()
            if self._answered(name)
        )

    @cached_property
    def switches(self) -> tuple[SwitchView, ...]:
        """Switches that answered, in the order of the file."""
        return tuple(
            SwitchView(self, name, self.devices[name], switch)
            for name, switch in self.cluster.switches.items()
            if self._answered(name)
        )

    @cached_property
    def cables(self) -> tuple[CableView, ...]:
        """Cables between nodes and switches that answered, in the order of the switches' ports."""
        nodes = {node.name: node for node in self.nodes}
        switches = {switch.name: switch for switch in self.switches}
        return tuple(
            CableView(
                PortView(nodes[cable.node], cable.port), SwitchPortView(switches[cable.switch], cable.switch_port)
            )
            for cable in cables(self.cluster)
            if cable.node in nodes and cable.switch in switches
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the nodes that answered."""
        return frozenset(node.name for node in self.nodes)

    @cached_property
    def pairs(self) -> Pairs:
        """Which ports test which others."""
        return Pairs(self.cluster)

    @cached_property
    def cabling(self) -> Cabling:
        """The cables of the cluster file, by their ends."""
        return Cabling(self.cluster)

    @cached_property
    def rails(self) -> tuple[RailView, ...]:
        """Rails with their ports."""
        ports: dict[str, list[PortView]] = {name: [] for name in self.cluster.rails}
        for node in self.nodes:
            for port in node.ports:
                ports[port.port.rail].append(port)
        return tuple(RailView(self, name, rail, tuple(ports[name])) for name, rail in self.cluster.rails.items())

    def count_on_rail(self, rail: str, value_of: Callable[[PortView], V]) -> Mapping[V | None, int]:
        """Return how many ports of a rail have each value; they are read once, however many of them are compared."""
        if (rail, value_of) not in self._counted:
            ports = next(view.ports for view in self.rails if view.name == rail)
            self._counted[rail, value_of] = Counter(_value(port, value_of) for port in ports)
        return self._counted[rail, value_of]

    def _answered(self, device: str) -> bool:
        facts = self.devices.get(device)
        return facts is not None and (facts.failure is None or facts.failure.connected)


def _value(port: PortView, value_of: Callable[[PortView], V]) -> V | None:
    try:
        return value_of(port)
    except Unread:
        return None


def _known(reading: Known[F] | Unknown, device: str) -> Known[F]:
    if isinstance(reading, Unknown):
        raise Unread(reading, device)
    return reading
