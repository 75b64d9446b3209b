"""From the lines of a node's reader to samples on our clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from railbed.fleet.sample.clock import Alignment, ControlClock, WallClock
from railbed.fleet.sample.intake import Emit, Intake
from railbed.model import events
from railbed.model.meters import Sample, SeriesKey
from railbed.model.record import Event
from railbed.model.text.printable import printable
from railbed.parsing.counters import Answer, Counted, Fault, ForeignConnection, Layout, LayoutLine, Line, Row

LEAD_SECONDS = 0.02
"""The first sample is at least this far ahead, so that the order arrives in time."""
BEATS = 60
"""Heartbeats that may still be answered."""


@dataclass
class ReaderState:
    """What is known about a node, whichever reader runs there."""

    node: str
    interval: float
    clock: ControlClock
    intake: Intake
    emit: Emit
    counted: dict[SeriesKey, Counted] = field(default_factory=dict)
    """Counters that wrap early."""
    series: tuple[SeriesKey, ...] = ()


class RowReader:
    """Takes the lines of one reader, from its start to its end."""

    def __init__(self, state: ReaderState) -> None:
        self._state = state
        self._clock = state.clock
        self._alignment = Alignment()
        self._wall = WallClock()  # anew for each reader: after a reboot the monotonic clock begins at 0
        self._layout: Layout | None = None
        self._sent: dict[int, float] = {}
        self._number = 0
        self.rows = 0

    @property
    def aligned(self) -> bool:
        """Whether the clock of the node is known."""
        return self._alignment.known

    def heartbeat(self) -> bytes:
        """Return the next heartbeat, to be sent now."""
        self._number += 1
        self._sent.pop(self._number - BEATS, None)
        self._sent[self._number] = self._clock.monotonic()
        return b"p %d\n" % self._number

    def beginning(self) -> bytes:
        """Return the order to begin: all nodes sample at the same moments, multiples of the interval.

        A disturbance of all ranks at once costs a synchronous training less than one of each rank in turn.
        """
        interval = self._state.interval
        earliest = self._clock.time_of(self._clock.monotonic()) + LEAD_SECONDS + self._alignment.error
        moment = (earliest // interval + 1) * interval - self._clock.distance
        return b"g %d\n" % max(0, round((moment + self._alignment.offset) * 1e6))

    def take(self, line: Line) -> str:
        """Process a line; return why the reader is of no more use, or an empty string."""
        match line:
            case Row():
                return self._take_row(line)
            case Answer():
                self._take_answer(line)
            case LayoutLine():
                self._take_layout(Layout(self._state.node, line))
            case ForeignConnection():
                self._report(line)
            case Fault(text=text):
                return f"its reader failed: {printable(text)}"
        return ""

    def _take_layout(self, layout: Layout) -> None:
        if layout.series != self._state.series:
            self._state.series = layout.series
        self._layout = layout

    def _take_answer(self, answer: Answer) -> None:
        sent = self._sent.pop(answer.number, None)
        if sent is None:
            return
        self._alignment.add(sent=sent, node=answer.time_us / 1e6, received=self._clock.monotonic())
        if seconds := self._wall.set((answer.wall_us - answer.time_us) / 1e6):
            node = self._state.node
            message = f"the clock of {node} was set by {seconds:+.3f} s"
            self._state.emit(events.ClockJumped(subject=node, message=message, seconds=round(seconds, 6)))

    def _report(self, link: ForeignConnection) -> None:
        """Emit the event for traffic that is not the training's."""
        local, peer, process, program = map(printable, (link.local, link.peer, link.process, link.program))
        name = f"{program} (process {process})" if process else program
        self._state.emit(
            events.ForeignTraffic(
                subject=self._state.node,
                message=f"{name} uses the network beside the training: {local} with {peer}",
                local=local,
                peer=peer,
                program=program if process else "",
                process=int(process) if process.isdecimal() else None,
            )
        )

    def _take_row(self, row: Row) -> str:
        layout = self._layout
        if layout is None or len(row.values) != layout.width:
            return "its reader sent a row that does not fit its layout"
        if not self.aligned:
            return ""
        values = layout.values(row.values)
        layout.widen(values, self._state.counted)
        time = self._clock.time_of(self._alignment.to_ours(row.time_us / 1e6))
        sample = Sample(self._state.node, time, self._state.series, values)
        self.rows += self._state.intake.add(sample, lambda: self._describe(layout))
        return ""

    def _describe(self, layout: Layout) -> Event:
        """Return the event for a node that is sampled."""
        state, error = self._state, self._alignment.error
        ahead = (self._wall.distance or 0.0) - self._clock.distance + self._alignment.offset
        side = "ahead" if ahead >= 0 else "behind"
        return events.Sampling(
            subject=state.node,
            message=f"{len(layout.series)} series every {state.interval:g} s; "
            f"its clock is {abs(ahead) * 1e3:.1f} ms {side}, known to ±{error * 1e3:.1f} ms",
            interval=state.interval,
            series=len(layout.series),
            clock_offset=round(ahead, 6),
            clock_error=round(error, 6),
        )
