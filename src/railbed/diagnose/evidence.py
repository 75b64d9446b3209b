"""What a rule reads: a run as nodes, ports, rails, cables and switches, each with its series, and the run's marks.

A series that was not sampled is missing, never zero: `read` ends the judgement, `try_read` returns None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from railbed.diagnose.signal import Numbers, Signal, Span
from railbed.model.cabling import cables, port_key
from railbed.model.cluster import Cluster, Node, Policy, Port, Switch, SwitchPort
from railbed.model.record import Finding
from railbed.model.series import Meter, Series


class MarkOf(Protocol):
    """Something that happened at a time."""

    @property
    def time(self) -> float: ...
    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def text(self) -> str: ...


class TrackOf(Protocol):
    """A series with its rates or values."""

    @property
    def meter(self) -> Meter: ...
    @property
    def times(self) -> Numbers: ...
    @property
    def values(self) -> Numbers: ...


class RunTimeline(Protocol):
    """What rules need of `store.timeline.Timeline`."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    def series(self) -> Sequence[Series]: ...
    def track(self, series: Series) -> TrackOf: ...
    def marks(self) -> Sequence[MarkOf]: ...
    def findings(self) -> Sequence[Finding]: ...


class NotMeasured(Exception):
    """Raised by `read` if there is no such series; the caller turns it into a `skipped` finding."""

    def __init__(self, meter: str, place: str) -> None:
        super().__init__(f"{meter} was not measured on {place}" if place else f"no {meter} was measured")
        self.meter = meter


class NotJudged(Exception):
    """Raised by a rule that does not apply to a subject; the message is the reason."""


@dataclass(frozen=True)
class _Place:
    """Something with series."""

    evidence: Evidence

    @property
    def subject(self) -> str:
        """Its name in a finding."""
        raise NotImplementedError

    @property
    def policy(self) -> Policy:
        """The lossless policy of the cluster."""
        return self.evidence.cluster.policy

    @property
    def lossless(self) -> str:
        """The number of the lossless priority, which is also that of its queue."""
        return str(self.policy.priority)

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series; None if it was not measured."""
        raise NotImplementedError

    def read(self, meter: str, part: str = "") -> Signal:
        """Return a series, or end this judgement: it was not measured."""
        signal = self.try_read(meter, part)
        if signal is None:
            raise NotMeasured(f"{meter} {part}".strip(), self.subject)
        return signal


@dataclass(frozen=True)
class NodeView(_Place):
    """One node."""

    name: str
    node: Node

    @property
    def subject(self) -> str:
        """Name of the node."""
        return self.name

    @property
    def ports(self) -> list[PortView]:
        """Its ports on rails."""
        return [PortView(self.evidence, self.name, port) for port in self.node.ports]

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the node as a whole."""
        return self.evidence.signal(Series(self.name, meter, "", part))


@dataclass(frozen=True)
class PortView(_Place):
    """One port of a node."""

    name: str
    """Of the node."""
    port: Port

    @property
    def subject(self) -> str:
        """`node/interface`."""
        return f"{self.name}/{self.port.netdev}"

    @property
    def peers(self) -> list[PortView]:
        """The ports of other nodes on the same rail."""
        return [PortView(self.evidence, node, port) for node, port in self.evidence.cluster.peers(self.name, self.port)]

    @property
    def switch_port(self) -> SwitchPortView | None:
        """The switch port at the other end of its cable; None if the cluster file has none."""
        return next((cable.switch_port for cable in self.evidence.cables if cable.port.subject == self.subject), None)

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the port."""
        return self.evidence.signal(Series(self.name, meter, self.port.netdev, part))


@dataclass(frozen=True)
class SwitchView(_Place):
    """One switch."""

    name: str
    switch: Switch

    @property
    def subject(self) -> str:
        """Name of the switch."""
        return self.name

    @property
    def ports(self) -> list[SwitchPortView]:
        """Its ports that nodes are cabled to."""
        return [SwitchPortView(self.evidence, self.name, port) for port in self.switch.ports]

    def try_read(self, meter: str, part: str = "") -> Signal | None:
        """Return a series of the switch as a whole."""
        return self.evidence.signal(Series(self.name, meter, "", part))

    def on_ports(self, meter: str, part: str = "") -> dict[str, Signal]:
        """Return the series of every port by the port's name, also of ports without a node."""
        return {
            series.port: signal
            for series in self.evidence.of_meter(meter)
            if series.device == self.name and series.part == part and (signal := self.evidence.signal(series))
        }


@dataclass(frozen=True)
class SwitchPortView(_Place):
    """One port of a switch."""

    name: str
    """Of the switch."""
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
class CableView:
    """The cable between a port of a node and a port of a switch."""

    port: PortView
    switch_port: SwitchPortView

    @property
    def subject(self) -> str:
        """`node/interface`."""
        return self.port.subject


@dataclass(frozen=True)
class RailView:
    """One rail with the ports of all nodes on it."""

    evidence: Evidence
    name: str
    ports: tuple[PortView, ...]

    @property
    def subject(self) -> str:
        """Name of the rail."""
        return self.name

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
    def nodes(self) -> tuple[NodeView, ...]:
        """Every node, in the order of the file."""
        return tuple(NodeView(self, name, node) for name, node in self.cluster.nodes.items())

    @cached_property
    def switches(self) -> tuple[SwitchView, ...]:
        """Every switch, in the order of the file."""
        return tuple(SwitchView(self, name, switch) for name, switch in self.cluster.switches.items())

    @cached_property
    def cables(self) -> tuple[CableView, ...]:
        """Cables between nodes and switches."""
        return tuple(
            CableView(PortView(self, cable.node, cable.port), SwitchPortView(self, cable.switch, cable.switch_port))
            for cable in cables(self.cluster)
        )

    @cached_property
    def rails(self) -> tuple[RailView, ...]:
        """Rails with their ports."""
        ports = [port for node in self.nodes for port in node.ports]
        return tuple(
            RailView(self, name, tuple(port for port in ports if port.port.rail == name)) for name in self.cluster.rails
        )

    @cached_property
    def _by_meter(self) -> Mapping[str, Sequence[Series]]:
        index: dict[str, list[Series]] = {}
        for series in self.timeline.series():
            index.setdefault(series.meter, []).append(series)
        return index

    @cached_property
    def _signals(self) -> dict[Series, Signal]:
        return {}

    def of_meter(self, meter: str) -> Sequence[Series]:
        """Return every series of a meter."""
        return self._by_meter.get(meter, ())

    def signal(self, series: Series) -> Signal | None:
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

    def marks(self, *kinds: str) -> Iterator[MarkOf]:
        """Yield the marks of these kinds."""
        return (mark for mark in self.timeline.marks() if mark.kind in kinds)

    def wrong(self, *checks: str) -> list[Finding]:
        """Return what the run's own checks complained about."""
        return [
            finding
            for finding in self.timeline.findings()
            if finding.check in checks and finding.verdict in ("fail", "warn")
        ]
