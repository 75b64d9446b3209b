"""What a rule sees: the cluster file, with the facts of each device and the series of a run, as nodes, ports, cables.

Nodes, switches, their ports and rails read the facts of a probe (`read`) and the series of a meter (`signal`). What was
not read or not recorded is unknown, never zero: it ends the judgement, or is None for a rule that can do without
(`try_read`, `try_signal`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from railbed.model.cabling import Cabling, cables, port_key
from railbed.model.cluster import Cluster, Node, Policy, Port, Rail, Switch, SwitchPort
from railbed.model.meters import SeriesKey
from railbed.model.probe import Pairs, Probe
from railbed.model.reading import DeviceFacts, Known, Output
from railbed.rules.place import JudgedPlace, require_known, value_if_read
from railbed.rules.recorded import RecordedRun, RunTimeline
from railbed.rules.rule import NotJudged

if TYPE_CHECKING:  # numpy: check does without
    from railbed.rules.signal import Signal
    from railbed.store.series.rates import Growth

F = TypeVar("F")
V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class DeviceView(JudgedPlace):
    """One device."""

    site: Site
    name: str
    facts: DeviceFacts

    @property
    def subject(self) -> str:
        """Name of the device."""
        return self.name

    def try_signal(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the device itself; None if it was not measured."""
        return self.site.run.try_signal(SeriesKey(self.name, meter, "", part))

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe, or end this judgement as unknown."""
        return require_known(self.facts.read(probe), self.name).facts

    def again(self, probe: Probe[F]) -> F:
        """Return the second reading of a probe that is read twice."""
        return require_known(self.facts.again(probe), self.name).facts

    def output(self, probe: Probe[F]) -> Output:
        """Return the raw output behind the facts, for its times."""
        return require_known(self.facts.read(probe), self.name).output

    def outputs(self, probe: Probe[F]) -> tuple[Output, Output]:
        """Return the raw outputs of both readings."""
        return self.output(probe), require_known(self.facts.again(probe), self.name).output

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
    """One node."""

    node: Node

    @property
    def is_in_slurm_job(self) -> bool:
        """Whether it is reached through a Slurm job, which sets the limits of everything that runs there."""
        return self.node.login.over(self.site.cluster.login).slurm_job is not None

    @property
    def ports(self) -> Iterator[PortView]:
        """Its ports on rails."""
        return (PortView(self, port) for port in self.node.ports)

    @property
    def rdma_ports(self) -> Iterator[PortView]:
        """Its ports on rails, and its HCAs without an interface."""
        return (PortView(self, port) for port in self.node.rdma_ports)


@dataclass(frozen=True, slots=True)
class PortView(JudgedPlace):
    """One port of a node."""

    node: NodeView
    port: Port

    @property
    def site(self) -> Site:
        """The cluster."""
        return self.node.site

    @property
    def subject(self) -> str:
        """`node/interface`."""
        return f"{self.node.name}/{self.port.netdev}"

    @property
    def rail(self) -> Rail:
        """Its rail."""
        return self.site.cluster.rails[self.port.rail]

    @property
    def mtu(self) -> int:
        """The MTU that the cluster file gives its rail."""
        return self.site.cluster.mtu_of(self.port.rail)

    @property
    def peers(self) -> list[PortView]:
        """The ports of other nodes on the same rail; of an HCA, their HCAs."""
        wanted = (self.port.rail, self.port.is_hca)
        others = (port for node in self.site.nodes if node.name != self.node.name for port in node.rdma_ports)
        return [port for port in others if (port.port.rail, port.port.is_hca) == wanted]

    @property
    def switch_port(self) -> SwitchPortView | None:
        """The switch port at the other end of its cable; None if the cluster file has none."""
        return self.site.switch_ports.get(self.subject)

    def on_rail(self, value_of: Callable[[PortView], V]) -> Mapping[V | None, int]:
        """Return how many ports of its rail have each value, this one included; None counts those not read."""
        return self.site.count_on_rail(self.port.rail, value_of)

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe on this port's node, or end this judgement as unknown."""
        return self.node.read(probe)

    def try_signal(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the port; None if it was not measured."""
        return self.site.run.try_signal(SeriesKey(self.node.name, meter, self.port.netdev, part))

    def growth(self, meter: str) -> Growth | None:
        """Return by how much a counter of the port grew, also over gaps; None if it was not measured."""
        return self.site.run.growth(SeriesKey(self.node.name, meter, self.port.netdev))


@dataclass(frozen=True, slots=True)
class SwitchView(DeviceView):
    """One switch."""

    switch: Switch

    @property
    def ports(self) -> Iterator[SwitchPortView]:
        """Its ports that nodes are cabled to."""
        return (SwitchPortView(self, port) for port in self.switch.ports)

    def on_ports(self, meter: str, part: str = "") -> dict[str, Signal]:
        """Return the series of every port by the port's name, also of ports without a node."""
        return {
            series.port: signal
            for series in self.site.run.series_of(meter)
            if (series.device, series.part) == (self.name, part) and (signal := self.site.run.try_signal(series))
        }


@dataclass(frozen=True, slots=True)
class SwitchPortView(JudgedPlace):
    """One port of a switch."""

    switch: SwitchView
    port: SwitchPort

    @property
    def site(self) -> Site:
        """The cluster."""
        return self.switch.site

    @property
    def subject(self) -> str:
        """`switch/port`."""
        return f"{self.switch.name}/{self.port.name}"

    def read(self, probe: Probe[F]) -> F:
        """Return the facts of a probe on this port's switch, or end this judgement as unknown."""
        return self.switch.read(probe)

    def try_signal(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the port, however the switch spells its name; None if it was not measured."""
        wanted = (self.switch.name, part, port_key(self.port.name))
        for series in self.site.run.series_of(meter):
            if (series.device, series.part, port_key(series.port)) == wanted:
                return self.site.run.try_signal(series)
        return None


@dataclass(frozen=True, slots=True)
class CableView:
    """The cable between a port of a node and a port of a switch."""

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
    """One rail with its ports on nodes."""

    site: Site
    name: str
    rail: Rail
    ports: tuple[PortView, ...]

    @property
    def subject(self) -> str:
        """Name of the rail."""
        return self.name

    @property
    def switch_ports(self) -> list[SwitchPortView]:
        """The switch ports at the other ends of its cables, as far as the cluster file has them."""
        return [port.switch_port for port in self.ports if port.switch_port]

    def signals(self, meter: str) -> dict[str, Signal]:
        """Return a series of every port by the node's name, or end this judgement if one was not measured."""
        return {port.node.name: port.signal(meter) for port in self.ports}

    def try_signals(self, meter: str) -> dict[str, Signal]:
        """Return a series of those ports on which it was measured."""
        return {port.node.name: signal for port in self.ports if (signal := port.try_signal(meter))}


class Site:
    """The cluster, everything read from it, and what was recorded while a run used it.

    With facts, it has the devices that answered: only the rule `reachable` reports the others. Without, it has all.
    `runs` has the names of the runs in progress that were started here, by the names of their jobs on the nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        facts: Mapping[str, DeviceFacts] | None = None,
        timeline: RunTimeline | None = None,
        *,
        runs: Mapping[str, str] | None = None,
    ) -> None:
        names = (*cluster.nodes, *cluster.switches)
        self.cluster = cluster
        self.devices = {name: DeviceFacts(device=name) for name in names} if facts is None else facts
        self.runs = runs or {}
        self._run = RecordedRun(timeline) if timeline else None
        self._counted: dict[tuple[str, Callable[[PortView], object]], Counter[Any]] = {}

    @property
    def subject(self) -> str:
        """The cluster as a whole."""
        return "cluster"

    @property
    def run(self) -> RecordedRun:
        """What was recorded; without a run, this ends the judgement."""
        if self._run is None:
            raise NotJudged("no run was recorded")
        return self._run

    @cached_property
    def nodes_by_name(self) -> Mapping[str, NodeView]:
        """Nodes, in the order of the file."""
        answered = ((name, node) for name, node in self.cluster.nodes.items() if self._has_answered(name))
        return {name: NodeView(self, name, self.devices[name], node) for name, node in answered}

    @property
    def nodes(self) -> Collection[NodeView]:
        """Nodes, in the order of the file."""
        return self.nodes_by_name.values()

    @cached_property
    def switches(self) -> tuple[SwitchView, ...]:
        """Switches, in the order of the file."""
        return tuple(
            SwitchView(self, name, self.devices[name], switch)
            for name, switch in self.cluster.switches.items()
            if self._has_answered(name)
        )

    @cached_property
    def cables(self) -> tuple[CableView, ...]:
        """Cables between nodes and switches, in the order of the switches' ports."""
        nodes, switches = self.nodes_by_name, {switch.name: switch for switch in self.switches}
        return tuple(
            CableView(
                PortView(nodes[cable.node], cable.port), SwitchPortView(switches[cable.switch], cable.switch_port)
            )
            for cable in cables(self.cluster)
            if cable.node in nodes and cable.switch in switches
        )

    @cached_property
    def switch_ports(self) -> Mapping[str, SwitchPortView]:
        """The switch port at the other end of each cable, by the node's port."""
        return {cable.subject: cable.switch_port for cable in self.cables}

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
        """Return how many ports of a rail, or else HCAs, have each value; they are read once, however many compare."""
        if (rail, value_of) not in self._counted:
            own = next(view.ports for view in self.rails if view.name == rail)
            ports = own or [port for node in self.nodes for port in node.rdma_ports if port.port.rail == rail]
            self._counted[rail, value_of] = Counter(value_if_read(port, value_of) for port in ports)
        return self._counted[rail, value_of]

    def _has_answered(self, device: str) -> bool:
        facts = self.devices.get(device)
        return facts is not None and (facts.failure is None or facts.failure.connected)
