"""What a rule reads: a run as nodes, ports, rails, cables and switches, each with its series, and the run's marks.

A series that was not sampled is missing, never zero: `read` ends the judgement, `try_read` returns None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from railbed.model.cabling import cables, port_key
from railbed.model.cluster import Cluster, Node, Policy, Port, Switch, SwitchPort
from railbed.model.meters import SeriesKey
from railbed.model.record import WRONG, Finding
from railbed.rules.judgement import Span
from railbed.rules.rule import NotJudged
from railbed.rules.signal import Signal
from railbed.store.series.rates import Growth
from railbed.store.timeline import Mark, Track


class RunTimeline(Protocol):
    """What rules need of `store.timeline.Timeline`."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def unstored(self) -> str: ...
    def series(self) -> Sequence[SeriesKey]: ...
    def track(self, series: SeriesKey) -> Track: ...
    def growth(self, series: SeriesKey) -> Growth: ...
    def starts(self) -> Sequence[float]: ...
    def marks(self) -> Sequence[Mark]: ...
    def findings(self) -> Sequence[Finding]: ...


class Unsampled(NotJudged):
    """Raised by `read` if there is no such series."""

    def __init__(self, meter: str, place: str) -> None:
        super().__init__(f"{meter} was not measured on {place}")


@dataclass(frozen=True)
class _Place(ABC):
    """A device or a port, with its series."""

    evidence: Evidence
    name: str
    """Of the device."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """Its name in a finding."""

    @abstractmethod
    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series; None if it was not measured."""

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.evidence.cluster.policy

    @property
    def lossless(self) -> str:
        """The number of the lossless priority, which is also that of its queue."""
        return str(self.policy.priority)

    def read(self, meter: str, part: str = "") -> Signal:
        """Return a series, or end this judgement: it was not measured."""
        signal = self.try_read(meter, part)
        if signal is None:
            raise Unsampled(f"{meter} {part}".strip(), self.subject)
        return signal


@dataclass(frozen=True)
class _DeviceView(_Place):
    """A node or a switch."""

    @property
    def subject(self) -> str:
        """Name of the device."""
        return self.name

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the device itself; None if it was not measured."""
        return self.evidence.signal(SeriesKey(self.name, meter, "", part))


@dataclass(frozen=True)
class SampledNode(_DeviceView):
    """One node."""

    node: Node

    @property
    def ports(self) -> list[SampledPort]:
        """Its ports on rails."""
        return [SampledPort(self.evidence, self.name, port) for port in self.node.ports]


@dataclass(frozen=True)
class SampledPort(_Place):
    """One port of a node."""

    port: Port

    @property
    def subject(self) -> str:
        """`node/interface`."""
        return f"{self.name}/{self.port.netdev}"

    @property
    def peers(self) -> list[SampledPort]:
        """The ports of other nodes on the same rail."""
        return [
            SampledPort(self.evidence, node, port) for node, port in self.evidence.cluster.peers(self.name, self.port)
        ]

    @property
    def switch_port(self) -> SampledSwitchPort | None:
        """The switch port at the other end of its cable; None if the cluster file has none."""
        return self.evidence.switch_ports.get(self.subject)

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the port."""
        return self.evidence.signal(SeriesKey(self.name, meter, self.port.netdev, part))

    def growth(self, meter: str) -> Growth | None:
        """Return by how much a counter of the port grew, also over gaps; None if it was not measured."""
        series = SeriesKey(self.name, meter, self.port.netdev)
        return self.evidence.timeline.growth(series) if self.evidence.signal(series) else None


@dataclass(frozen=True)
class SampledSwitch(_DeviceView):
    """One switch."""

    switch: Switch

    @property
    def ports(self) -> list[SampledSwitchPort]:
        """Its ports that nodes are cabled to."""
        return [SampledSwitchPort(self.evidence, self.name, port) for port in self.switch.ports]

    def on_ports(self, meter: str, part: str = "") -> dict[str, Signal]:
        """Return the series of every port by the port's name, also of ports without a node."""
        return {
            series.port: signal
            for series in self.evidence.of_meter(meter)
            if series.device == self.name and series.part == part and (signal := self.evidence.signal(series))
        }


@dataclass(frozen=True)
class SampledSwitchPort(_Place):
    """One port of a switch."""

    port: SwitchPort

    @property
    def subject(self) -> str:
        """`switch/port`."""
        return f"{self.name}/{self.port.name}"

    @property
    def far_end(self) -> str:
        """The node's port at the other end of its cable."""
        return f"{self.port.node}/{self.port.netdev}"

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the port, however the switch spells its name."""
        wanted = port_key(self.port.name)
        for series in self.evidence.of_meter(meter):
            if (series.device, series.part) == (self.name, part) and port_key(series.port) == wanted:
                return self.evidence.signal(series)
        return None


@dataclass(frozen=True)
class SampledRail:
    """One rail with the ports of all nodes on it."""

    evidence: Evidence
    name: str
    ports: tuple[SampledPort, ...]

    @property
    def subject(self) -> str:
        """Name of the rail."""
        return self.name

    @property
    def switch_ports(self) -> list[SampledSwitchPort]:
        """The switch ports at the other ends of its cables, as far as the cluster file has them."""
        return [port.switch_port for port in self.ports if port.switch_port]

    def read(self, meter: str, part: str = "") -> dict[str, Signal]:
        """Return a series of every port by the node's name, or end this judgement if one was not measured."""
        return {port.name: port.read(meter, part) for port in self.ports}

    def try_read(self, meter: str, part: str = "") -> dict[str, Signal]:
        """Return a series of those ports on which it was measured."""
        signals = {port.name: port.try_read(meter, part) for port in self.ports}
        return {name: signal for name, signal in signals.items() if signal is not None}


@dataclass(frozen=True)
class Evidence:
    """The cluster and what was recorded while the run used it."""

    cluster: Cluster
    timeline: RunTimeline

    @property
    def subject(self) -> str:
        """The cluster as a whole."""
        return "cluster"

    @cached_property
    def span(self) -> Span:
        """From the start to the end of the run."""
        return Span(self.timeline.start, self.timeline.end)

    @cached_property
    def nodes(self) -> tuple[SampledNode, ...]:
        """Every node, in the order of the file."""
        return tuple(SampledNode(self, name, node) for name, node in self.cluster.nodes.items())

    @cached_property
    def switches(self) -> tuple[SampledSwitch, ...]:
        """Every switch, in the order of the file."""
        return tuple(SampledSwitch(self, name, switch) for name, switch in self.cluster.switches.items())

    @cached_property
    def switch_ports(self) -> Mapping[str, SampledSwitchPort]:
        """The switch port at the other end of each cable, by the node's port."""
        return {
            f"{cable.node}/{cable.port.netdev}": SampledSwitchPort(self, cable.switch, cable.switch_port)
            for cable in cables(self.cluster)
        }

    @cached_property
    def rails(self) -> tuple[SampledRail, ...]:
        """Rails with their ports."""
        ports = [port for node in self.nodes for port in node.ports]
        return tuple(
            SampledRail(self, name, tuple(port for port in ports if port.port.rail == name))
            for name in self.cluster.rails
        )

    @cached_property
    def _by_meter(self) -> Mapping[str, Sequence[SeriesKey]]:
        index: dict[str, list[SeriesKey]] = {}
        for series in self.timeline.series():
            index.setdefault(series.meter, []).append(series)
        return index

    @cached_property
    def _signals(self) -> dict[SeriesKey, Signal]:
        return {}

    def of_meter(self, meter: str) -> Sequence[SeriesKey]:
        """Return every series of a meter."""
        return self._by_meter.get(meter, ())

    def signal(self, series: SeriesKey) -> Signal | None:
        """Return a series; None if it was not measured, or never had a value."""
        if series not in self._signals:
            if series not in self.of_meter(series.meter):
                return None
            track = self.timeline.track(series)
            self._signals[series] = Signal(series, track.meter, track.times, track.values)
        signal = self._signals[series]
        return signal if len(signal.within(None)) else None

    def all_of(self, meter: str) -> list[Signal]:
        """Return every series of a meter that has values."""
        return [signal for series in self.of_meter(meter) if (signal := self.signal(series))]

    def marks(self, *kinds: str) -> Iterator[Mark]:
        """Yield the marks of these kinds."""
        return (mark for mark in self.timeline.marks() if mark.kind in kinds)

    def wrong(self, *checks: str) -> list[Finding]:
        """Return what the run's own checks complained about, other than those at restarts."""
        return [
            finding
            for finding in self.timeline.findings()
            if finding.check in checks and finding.verdict in WRONG and finding.generation is None
        ]
