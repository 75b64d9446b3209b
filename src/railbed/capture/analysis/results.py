"""The result of an analysis: recordings, their clocks, flows with what each recording shows of them."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from railbed.capture.analysis.answers import Answers, RoundTrips
from railbed.capture.analysis.checksums import Checksums
from railbed.capture.analysis.clocks import Clock
from railbed.capture.analysis.congestion import Incast, Reaction
from railbed.capture.analysis.context import Context
from railbed.capture.analysis.journeys import Journey
from railbed.capture.analysis.pairing import Partner
from railbed.capture.analysis.pauses import Paused
from railbed.capture.analysis.sequence import SequenceNumbers
from railbed.capture.analysis.traffic import Marks, MessageStats
from railbed.capture.analysis.views import End, FlowKey, View
from railbed.capture.packets import Recording


@dataclass(frozen=True, kw_only=True)
class FlowView:
    """What one recording shows of a flow."""

    view: View
    clock: Clock
    marks: Marks
    """Of all packets."""
    data: Marks
    """Of requests, datagrams, and data that was read."""
    sequence: SequenceNumbers
    messages: MessageStats
    answers: Answers | None
    """To the requests; None if the flow in the other direction is not in the recording, or not identified."""
    round_trips: RoundTrips | None
    checksums: Checksums

    @property
    def end(self) -> End:
        """Where it was recorded."""
        return self.view.end

    @property
    def recording(self) -> Recording:
        """The recording."""
        return self.view.recording

    @cached_property
    def bytes(self) -> int:
        """On the wire."""
        return int(self.view.column("length").sum(dtype=np.int64))

    @cached_property
    def payload(self) -> int:
        """Bytes of messages, repeats included."""
        return int(self.view.column("payload").sum(dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A flow between two recordings."""

    sent: FlowView
    arrived: FlowView
    journey: Journey


@dataclass(frozen=True, kw_only=True)
class RecordedFlow:
    """Packets from one address to a queue pair of another, in all recordings that have them."""

    id: str
    key: FlowKey
    transport: str
    partner: Partner | None
    path_size: int | None
    """Bytes of a message in a full packet; None if every message fits into a packet."""
    views: tuple[FlowView, ...]
    """The sender's first, the receiver's last."""
    legs: tuple[Leg, ...]
    reaction: Reaction | None = None
    """Of the sender, to notifications about this flow; None without notifications, or without the sender's rate."""

    @property
    def main(self) -> FlowView:
        """The view closest to the sender."""
        return self.views[0]

    def at(self, end: End) -> FlowView | None:
        """Return the view at an end of the flow."""
        return next((view for view in self.views if view.end == end), None)

    @property
    def start(self) -> int:
        """When the first packet was sent: nanoseconds of the reference clock."""
        return int(self.main.clock.align(self.main.view.times(self.main.view.rows[:1]))[0])

    @property
    def stop(self) -> int:
        """When the last packet was sent."""
        return int(self.main.clock.align(self.main.view.times(self.main.view.rows[-1:]))[0])


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Everything that is known of some recordings."""

    recordings: tuple[Recording, ...]
    context: Context
    clocks: tuple[Clock, ...]
    """In the order of the recordings."""
    flows: tuple[RecordedFlow, ...]
    """Those with the most bytes first."""
    pauses: tuple[Paused, ...] = ()
    incasts: tuple[Incast, ...] = ()
    left_out: int = 0
    """Packets of flows that were too many to analyse."""

    @cached_property
    def by_key(self) -> dict[FlowKey, RecordedFlow]:
        """Flows by what identifies them."""
        return {flow.key: flow for flow in self.flows}

    @cached_property
    def by_path(self) -> dict[tuple[str, str], list[RecordedFlow]]:
        """Flows by their two addresses."""
        paths: dict[tuple[str, str], list[RecordedFlow]] = {}
        for flow in self.flows:
            paths.setdefault((flow.key.source, flow.key.destination), []).append(flow)
        return paths

    @cached_property
    def by_source(self) -> dict[str, list[RecordedFlow]]:
        """Flows by the address that sends them."""
        sources: dict[str, list[RecordedFlow]] = {}
        for flow in self.flows:
            sources.setdefault(flow.key.source, []).append(flow)
        return sources

    def partner(self, flow: RecordedFlow) -> RecordedFlow | None:
        """Return the flow in the other direction of the same connection."""
        return self.by_key.get(flow.partner.key) if flow.partner else None

    def clock_of(self, recording: Recording) -> Clock:
        """Return the clock of a recording."""
        return next(clock for other, clock in zip(self.recordings, self.clocks, strict=True) if other is recording)

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """From the first to the last packet: nanoseconds of the reference clock; None without packets."""
        times = [
            clock.align(np.array([column.min(), column.max()], np.int64))
            for recording, clock in zip(self.recordings, self.clocks, strict=True)
            if len(column := recording.packets["time"])
        ]
        return (int(min(pair[0] for pair in times)), int(max(pair[1] for pair in times))) if times else None

    def carrying(self) -> Many[RecordedFlow]:
        """Return the flows with requests, datagrams, or data that was read."""
        return [flow for flow in self.flows if flow.main.data.packets or flow.main.payload]
