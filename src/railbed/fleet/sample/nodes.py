"""Samples one node: runs the reader there, starts it again if it is lost, and puts its samples on our clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from railbed.errors import DeviceError, ParseError
from railbed.fleet.fleet import Fleet
from railbed.fleet.node_program import BANNER_LINES, NodeProgram, ProgramOutput
from railbed.fleet.sample import node
from railbed.fleet.sample.clock import Alignment, ControlClock, WallClock
from railbed.fleet.sample.intake import Emit, Intake
from railbed.model import events
from railbed.model.meters import Sample, SeriesKey
from railbed.model.record import Event
from railbed.model.text import printable
from railbed.parsing.counters import (
    ETHTOOL,
    RDMA,
    Answer,
    Counted,
    ForeignConnection,
    Greeting,
    LayoutLine,
    Line,
    LineFault,
    ReaderLayout,
    Row,
    parse_line,
)
from railbed.transport.base import Program

READER = NodeProgram(
    purpose="sampling",
    package="railbed.fleet.sample.node",
    folder=Path(node.__file__).parent,
    modules=(
        "group",
        "files",
        "ethtool",
        "qdisc",
        "sockets",
        "peers",
        "owners",
        "traffic",
        "nvml",
        "reader",
    ),
    shared=("railbed.transport.netlink",),
    only_with={"nvml": "/proc/driver/nvidia"},
)


def order(interval: float, ports: Sequence[str], peers: Sequence[str] = (), training: str = "") -> bytes:
    """Return the first line of input: how often to sample, which interfaces, peers, counters, and training's folder."""
    wanted = {
        "interval_us": round(interval * 1e6),
        "ports": list(ports),
        "peers": list(peers),
        "rdma": list(RDMA),
        "ethtool": list(ETHTOOL),
        "training": training,
    }
    return json.dumps(wanted, separators=(",", ":")).encode() + b"\n"


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
        self._layout: ReaderLayout | None = None
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
                self._take_layout(ReaderLayout(self._state.node, line))
            case ForeignConnection():
                self._report(line)
            case LineFault(text=text):
                return f"its reader failed: {printable(text)}"
        return ""

    def _take_layout(self, layout: ReaderLayout) -> None:
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

    def _describe(self, layout: ReaderLayout) -> Event:
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


START_SECONDS = 30.0
"""How long a reader may take to start: sixteen nodes may share two processors, and a driver of GPUs may wake up."""
SILENCE_SECONDS = 4.0
"""A node that answers no heartbeat for this long is frozen or cut off."""
BEAT_SECONDS = 1.0
FIRST_BEATS, FIRST_BEAT_SECONDS = 4, 0.05
"""Heartbeats in quick succession at the start, to align the clocks."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 10.0


@dataclass
class NodeSampler:
    """Keeps a reader running on a node."""

    state: ReaderState
    python: str
    ports: Sequence[str]
    peers: Sequence[str]
    """Addresses of other nodes on its rails."""
    training: str = ""
    """The folder that the training's processes work in; empty if none is sampled."""

    async def keep(self, fleet: Fleet) -> None:
        """Sample until this is cancelled; a reader that is lost is started again."""
        pause = FIRST_RETRY_SECONDS
        while True:
            rows = RowReader(self.state)
            self.state.intake.interrupt(await self._serve(fleet, rows))
            pause = FIRST_RETRY_SECONDS if rows.rows else min(2 * pause, LAST_RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def _serve(self, fleet: Fleet, rows: RowReader) -> str:
        """Run a reader until it is lost; return why. Nothing is raised inside `open`: that would end the connection."""
        node = self.state.node
        try:
            async with asyncio.timeout(START_SECONDS) as limit, fleet.open(node, READER.command(self.python)) as remote:
                lines = ProgramOutput(remote)
                await remote.write(READER.text + order(self.state.interval, self.ports, self.peers, self.training))
                why = await _await_start(lines, rows)
                limit.reschedule(None)
                return why or await _follow(lines, rows)
        except TimeoutError:
            await fleet.hang_up_if_broken(node)
            return f"its reader did not start within {START_SECONDS:g} s"
        except DeviceError as error:
            return error.message


async def _await_start(lines: ProgramOutput, rows: RowReader) -> str:
    """Wait for the layout, return why it does not come; lines before the greeting are a login banner."""
    greeted, last = False, b""
    for _ in range(BANNER_LINES):
        line = await lines.line()
        if line is None:
            return lines.problem or f"its reader did not start: {await lines.last_words(last)}"
        try:
            parsed = parse_line(line)
        except ParseError as error:
            if greeted:
                return error.message
            last = line or last
            continue
        greeted = greeted or isinstance(parsed, Greeting)
        if greeted and isinstance(parsed, LayoutLine | LineFault):
            return rows.take(parsed)
    return "its login printed much more than a banner, and no reader started"


async def _follow(lines: ProgramOutput, rows: RowReader) -> str:
    """Exchange lines until the reader is lost; return why."""
    beating = asyncio.create_task(_beat(lines.remote, rows))
    try:
        while True:
            async with asyncio.timeout(SILENCE_SECONDS):
                line = await lines.line()
            if line is None:
                return lines.problem or "its reader ended"
            if why := rows.take(parse_line(line)):
                return why
    except TimeoutError:
        return f"it has not answered for {SILENCE_SECONDS:g} s"
    except ParseError as error:
        return f"its reader sent something else: {error.message}"
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


async def _beat(remote: Program, rows: RowReader) -> None:
    """Send heartbeats, each of which also measures the clock; after the first few, samples begin."""
    beats = 0
    while beats < FIRST_BEATS or not rows.aligned:
        await remote.write(rows.heartbeat())
        await asyncio.sleep(FIRST_BEAT_SECONDS if beats < FIRST_BEATS else BEAT_SECONDS)
        beats += 1
    await remote.write(rows.beginning())
    while True:
        await remote.write(rows.heartbeat())
        await asyncio.sleep(BEAT_SECONDS)
