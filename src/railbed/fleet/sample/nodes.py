"""Samples one node: starts the reader there, aligns clocks, turns rows into samples, starts it again if it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from railbed.errors import DeviceError, ParseError
from railbed.fleet.fleet import Fleet
from railbed.fleet.sample.clock import Alignment, ControlClock, WallClock
from railbed.fleet.sample.intake import Emit, Intake
from railbed.fleet.sample.program import command, order, program
from railbed.model import events
from railbed.model.printable import printable
from railbed.model.record import Event
from railbed.model.series import Sample, Series
from railbed.parsing.counters import Answer, Fault, Greeting, Layout, LayoutLine, Line, Row, parse_line
from railbed.transport.base import Program

START_SECONDS = 30.0
"""How long a reader may take to start: sixteen nodes may share two processors, and a driver of GPUs may wake up."""
SILENCE_SECONDS = 4.0
"""A node that answers no heartbeat for this long is frozen or cut off."""
BEAT_SECONDS = 1.0
FIRST_BEATS, FIRST_BEAT_SECONDS = 4, 0.05
"""Heartbeats in quick succession at the start, to align the clocks."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 10.0
LEAD_SECONDS = 0.02
"""The first sample is this far ahead at least, so that the order arrives in time."""
LINE_BYTES = 256 * 1024
STRANGE_LINES = 1000
"""Lines of a login banner, before the reader starts."""


@dataclass
class NodeSampler:
    """Keeps a reader running on a node."""

    node: str
    python: str
    ports: Sequence[str]
    interval: float
    clock: ControlClock
    intake: Intake
    emit: Emit
    counted: dict[Series, int] = field(default_factory=dict)
    """The last values of counters that wrap early."""
    _wall: WallClock = field(default_factory=WallClock)

    async def keep(self, fleet: Fleet) -> None:
        """Sample until this is cancelled; a reader that is lost is started again."""
        pause = FIRST_RETRY_SECONDS
        while True:
            reader = _Reader(self)
            self.intake.interrupt(await self._serve(fleet, reader))
            pause = FIRST_RETRY_SECONDS if reader.rows else min(2 * pause, LAST_RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def _serve(self, fleet: Fleet, reader: _Reader) -> str:
        """Run a reader until it is lost; return why. Raises nothing inside `open`: that would end the connection."""
        try:
            async with asyncio.timeout(START_SECONDS) as limit, fleet.open(self.node, command(self.python)) as remote:
                return await reader.run(remote, limit)
        except TimeoutError:
            await fleet.hang_up_if_broken(self.node)
            return f"its reader did not start within {START_SECONDS:g} s"
        except DeviceError as error:
            return error.message

    def describe(self, layout: Layout, alignment: Alignment) -> Event:
        """Return the event for a reader that samples."""
        ahead = (self._wall.distance or 0.0) - self.clock.distance + alignment.offset
        side = "ahead" if ahead >= 0 else "behind"
        return events.Sampling(
            subject=self.node,
            message=f"{len(layout.series)} series every {self.interval:g} s; "
            f"its clock is {abs(ahead) * 1e3:.1f} ms {side}, known to ±{alignment.error * 1e3:.1f} ms",
            interval=self.interval,
            series=len(layout.series),
            clock_offset=round(ahead, 6),
            clock_error=round(alignment.error, 6),
        )

    def note_wall(self, distance: float) -> None:
        """Note the node's time of day, and report if it was set."""
        if seconds := self._wall.set(distance):
            message = f"the clock of {self.node} was set by {seconds:+.3f} s"
            self.emit(events.ClockJumped(subject=self.node, message=message, seconds=round(seconds, 6)))


class _Reader:
    """One reader, from its start to its end."""

    def __init__(self, sampler: NodeSampler) -> None:
        self._sampler = sampler
        self._clock = sampler.clock
        self._alignment = Alignment()
        self._layout: Layout | None = None
        self._beats: dict[int, float] = {}
        self.rows = 0

    async def run(self, remote: Program, limit: asyncio.Timeout) -> str:
        """Exchange lines until the reader is lost; return why."""
        lines = _Lines(remote)
        await remote.write(program() + order(self._sampler.interval, self._sampler.ports))
        if why := await self._await_start(lines):
            return why
        limit.reschedule(None)
        beating = asyncio.create_task(self._beat(remote))
        try:
            return await self._follow(lines)
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _await_start(self, lines: _Lines) -> str:
        """Wait for the layout; lines before the greeting are a login banner."""
        greeted, last = False, b""
        for _ in range(STRANGE_LINES):
            line = await lines.next()
            if line is None:
                return f"its reader did not start: {await _last_words(lines.remote, last)}"
            try:
                parsed = parse_line(line)
            except ParseError as error:
                if greeted:
                    return error.message
                last = line or last
                continue
            greeted = greeted or isinstance(parsed, Greeting)
            if isinstance(parsed, Fault) or (greeted and isinstance(parsed, LayoutLine)):
                return self._take(parsed)
        return "its login printed much more than a banner, and no reader started"

    async def _follow(self, lines: _Lines) -> str:
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    line = await lines.next()
            except TimeoutError:
                return f"it has not answered for {SILENCE_SECONDS:g} s"
            if line is None:
                return lines.problem or "its reader ended"
            try:
                why = self._take(parse_line(line))
            except ParseError as error:
                why = f"its reader sent something else: {error.message}"
            if why:
                return why

    def _take(self, line: Line) -> str:
        """Process a line; return why the reader is lost, or an empty string."""
        match line:
            case Row():
                return self._take_row(line)
            case Answer():
                self._take_answer(line)
            case LayoutLine():
                self._layout = Layout(self._sampler.node, line)
            case Fault(text=text):
                return f"its reader failed: {printable(text)}"
        return ""

    def _take_answer(self, answer: Answer) -> None:
        sent = self._beats.pop(answer.number, None)
        if sent is not None:
            self._alignment.add(sent=sent, node=answer.time_us / 1e6, received=self._clock.monotonic())
            self._sampler.note_wall((answer.wall_us - answer.time_us) / 1e6)

    def _take_row(self, row: Row) -> str:
        layout, alignment = self._layout, self._alignment
        if layout is None or len(row.values) != layout.width:
            return "its reader sent a row that does not fit its layout"
        if not alignment.known:
            return ""
        values = layout.values(row.values)
        layout.widen(values, self._sampler.counted)
        time = self._clock.time_of(alignment.to_ours(row.time_us / 1e6))
        sample = Sample(self._sampler.node, time, layout.series, values)
        self.rows += self._sampler.intake.add(sample, lambda: self._sampler.describe(layout, alignment))
        return ""

    async def _beat(self, remote: Program) -> None:
        """Send heartbeats, each of which also measures the clock; after the first few, order the samples to begin."""
        number = 0
        while True:
            number += 1
            self._beats = {key: sent for key, sent in self._beats.items() if key > number - 60}
            self._beats[number] = self._clock.monotonic()
            await remote.write(b"p %d\n" % number)
            if number == FIRST_BEATS:
                await remote.write(b"g %d\n" % self._first_tick_us())
            await asyncio.sleep(FIRST_BEAT_SECONDS if number < FIRST_BEATS else BEAT_SECONDS)

    def _first_tick_us(self) -> int:
        """Return when to begin, on the node's clock: all nodes sample at the same moments, multiples of the interval.

        A disturbance of all ranks at once costs a synchronous training less than one of each rank in turn.
        """
        interval = self._sampler.interval
        earliest = self._clock.time_of(self._clock.monotonic()) + LEAD_SECONDS + self._alignment.error
        moment = (earliest // interval + 1) * interval - self._clock.distance
        return max(0, round((moment + self._alignment.offset) * 1e6))


class _Lines:
    """The output of a reader, line by line."""

    def __init__(self, remote: Program) -> None:
        self.remote = remote
        self.problem = ""
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """Return the next line, or None at the end; a line without an end is one, too."""
        while (at := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LINE_BYTES:
                self.problem = f"it sent a line of more than {LINE_BYTES // 1024} KiB"
                return None
            chunk = await self.remote.read(1)
            if not chunk:
                return None
            self._buffer += chunk
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line


async def _last_words(remote: Program, last: bytes) -> str:
    """Return the last line that a reader wrote before it ended, which is why it did not start."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            last = (await remote.read(2)).strip().rpartition(b"\n")[2] or last
    return printable(last[:200].decode("utf-8", "replace")) or "it ended at once"
