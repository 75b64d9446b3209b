"""Samples one node: runs the reader there, and starts it again if it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from railbed.errors import DeviceError, ParseError
from railbed.fleet.fleet import Fleet
from railbed.fleet.node_program import BANNER_LINES, ProgramOutput
from railbed.fleet.sample.program import READER, order
from railbed.fleet.sample.rows import ReaderState, RowReader
from railbed.parsing.counters import Fault, Greeting, LayoutLine, parse_line
from railbed.transport.base import Program

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
        if greeted and isinstance(parsed, LayoutLine | Fault):
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
