"""What rules judge: ports that send and receive, paths between two of them, recordings, and all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from railbed.capture.analysis.context import Context, KnownPort
from railbed.capture.analysis.results import Analysis, FlowView, RecordedFlow
from railbed.capture.packets import Recording
from railbed.rules.rule import Absent

MANAGEMENT_QPS = (0, 1)
"""Queue pairs of the connection manager, whose few datagrams are not marked."""


@dataclass(frozen=True)
class SenderView:
    """One address that sends or receives RDMA."""

    analysis: Analysis
    address: str

    @property
    def subject(self) -> str:
        """`node/port`, or the address."""
        return self.context.port(self.address)

    @property
    def context(self) -> Context:
        """What is expected."""
        return self.analysis.context

    @property
    def place(self) -> KnownPort | None:
        """The port, if the cluster file has it."""
        return self.context.place(self.address)

    @cached_property
    def sends(self) -> tuple[RecordedFlow, ...]:
        """Flows that it sends, without those of the connection manager."""
        flows = self.analysis.by_source.get(self.address, ())
        return tuple(flow for flow in flows if flow.key.qp not in MANAGEMENT_QPS)


@dataclass(frozen=True)
class PathView:
    """All flows from one address to another."""

    analysis: Analysis
    source: str
    destination: str

    @property
    def subject(self) -> str:
        """`node/port → node/port`."""
        return f"{self.context.port(self.source)} → {self.context.port(self.destination)}"

    @property
    def context(self) -> Context:
        """What is expected."""
        return self.analysis.context

    @property
    def between(self) -> str:
        """`between node1 and node2 on rail0`."""
        rail = self.context.rail(self.source)
        ends = f"between {self.context.node(self.source)} and {self.context.node(self.destination)}"
        return f"{ends} on {rail}" if rail and rail == self.context.rail(self.destination) else ends

    @property
    def sender(self) -> str:
        """Name of the sending node."""
        return self.context.node(self.source)

    @property
    def receiver(self) -> str:
        """Name of the receiving node."""
        return self.context.node(self.destination)

    @cached_property
    def flows(self) -> tuple[RecordedFlow, ...]:
        """Flows in this direction, without those of the connection manager."""
        flows = self.analysis.by_path.get((self.source, self.destination), ())
        return tuple(flow for flow in flows if flow.key.qp not in MANAGEMENT_QPS)

    @property
    def back(self) -> PathView:
        """The other direction."""
        return PathView(self.analysis, self.destination, self.source)

    @property
    def connections(self) -> tuple[RecordedFlow, ...]:
        """Flows with requests whose numbers have no gaps, or end this judgement: there are none."""
        flows = tuple(flow for flow in self.flows if any(len(view.view.requests.rows) for view in flow.views))
        if not flows:
            raise Absent(f"no requests of connections from {self.sender} to {self.receiver} were recorded")
        return flows

    @property
    def has_both_ends(self) -> bool:
        """Whether it was recorded where packets leave and where they arrive."""
        return {"sender", "receiver"} <= {view.end for view in self.views()}

    def views(self) -> Iterator[FlowView]:
        """Yield what every recording shows of the flows."""
        return (view for flow in self.flows for view in flow.views)


@dataclass(frozen=True)
class RecordingView:
    """One recording."""

    analysis: Analysis
    recording: Recording

    @property
    def subject(self) -> str:
        """Its name."""
        return self.recording.name

    @property
    def context(self) -> Context:
        """What is expected."""
        return self.analysis.context

    @cached_property
    def flows(self) -> tuple[FlowView, ...]:
        """What it shows of flows."""
        return tuple(view for flow in self.analysis.flows for view in flow.views if view.recording is self.recording)

    @property
    def seconds(self) -> float:
        """How long it was recorded."""
        times = self.recording.packets["time"]
        start, stop = self.recording.span or ((int(times.min()), int(times.max())) if len(times) else (0, 0))
        return (stop - start) / 1e9


@dataclass(frozen=True)
class ClusterView:
    """All recordings together."""

    analysis: Analysis

    @property
    def subject(self) -> str:
        """The cluster as a whole."""
        return "cluster"

    @property
    def context(self) -> Context:
        """What is expected."""
        return self.analysis.context


def ports_of(analysis: Analysis) -> list[SenderView]:
    """Return every address that sends, in order."""
    return [SenderView(analysis, address) for address in sorted(analysis.by_source)]


def paths_of(analysis: Analysis) -> list[PathView]:
    """Return every pair of addresses between which packets flow, one for each direction."""
    return [PathView(analysis, source, destination) for source, destination in sorted(analysis.by_path)]
