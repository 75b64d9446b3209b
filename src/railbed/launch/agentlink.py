"""The control end of an agent: starts it over the node's connection, exchanges messages, notices its silence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

from railbed.errors import DeviceError, Gone, Unreachable
from railbed.fleet import Fleet
from railbed.launch.messages import BEAT_SECONDS, LINE_LIMIT, SILENCE_SECONDS, Message, decode, encode
from railbed.transport.base import Program

HELLO_SECONDS = 50.0
"""How long an agent may take to start after the login: a shell with slow start-up files needs most of it, and so do
sixteen nodes that share two processors."""
LATE = f"its agent did not start within {HELLO_SECONDS:g} s: is its login shell slow (~/.bashrc)?"
MAX_GREETING_BYTES = 4 * 2**20
"""Most that may be printed before the agent's first message."""
LONGEST_GREETING = 64 * 1024
"""A longer greeting is what takes the time, rather than start-up files that are silent."""
FLOODED = f"its login printed for {HELLO_SECONDS:g} s, and its agent did not start: look at what `ssh HOST true` prints"
MAX_LINE_BYTES = 4 * LINE_LIMIT
"""A rank's line has at most a megabyte, and the agent wraps it in its own message."""


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """A message of a node's agent, or about it: the link itself adds the kinds `up` and `lost`."""

    node: str
    message: Message


@dataclass
class AgentLink:
    """Keeps an agent running on a node: a lost agent is started again."""

    node: str
    command: str
    inbox: asyncio.Queue[NodeMessage]
    retry_seconds: float = 2.0
    _program: Program | None = None
    _outbox: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    _last_received: float = 0.0
    _dropped: asyncio.Event = field(default_factory=asyncio.Event)
    _greeting: int = 0
    """Bytes that were printed before the agent's first message."""

    def send(self, message: Message) -> None:
        """Send a message, if an agent is running."""
        if self._program:
            self._outbox.put_nowait(message)

    def drop(self) -> None:
        """Close the connection to the agent: it ends its ranks, and another agent is started."""
        self._dropped.set()

    async def keep(self, fleet: Fleet) -> None:
        """Keep an agent running on the node, until this is cancelled."""
        while True:
            try:
                await self._serve(fleet)
                why = "its agent ended"
            except TimeoutError:
                late = FLOODED if self._greeting > LONGEST_GREETING else LATE
                why = f"no message for {SILENCE_SECONDS:g} s" if self._program else late
            except DeviceError as error:
                why = error.message
                if isinstance(error, Gone):
                    self.inbox.put_nowait(NodeMessage(self.node, {"kind": "lost", "why": why, "gone": True}))
                    return
            finally:
                self._program = None
            self.inbox.put_nowait(NodeMessage(self.node, {"kind": "lost", "why": why}))
            # Bounded: a frozen node does not close its end.
            with contextlib.suppress(TimeoutError, DeviceError):
                async with asyncio.timeout(1.0):
                    await fleet.hang_up(self.node)
            await asyncio.sleep(self.retry_seconds)

    async def _serve(self, fleet: Fleet) -> None:
        async with asyncio.timeout(HELLO_SECONDS) as limit, fleet.open(self.node, self.command) as program:
            self._outbox = asyncio.Queue()
            lines = _Lines(program)
            hello = await self._await_hello(lines)
            limit.reschedule(None)
            self._program, self._last_received = program, time.monotonic()
            self._dropped.clear()
            self.inbox.put_nowait(NodeMessage(self.node, {**hello, "kind": "up"}))
            tasks = [asyncio.create_task(work) for work in (self._read(lines), self._write(program), self._watch())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _await_hello(self, lines: _Lines) -> Message:
        """Return the agent's first message. Lines before it are a login banner; without it, the last is the reason."""
        last, self._greeting = b"", 0
        while (line := await lines.next()) is not None:
            message = decode(line)
            if message and message.get("kind") == "hello":
                return message
            last = line or last
            self._greeting += len(line) + 1
            if self._greeting > MAX_GREETING_BYTES:
                raise Unreachable(
                    f"its login printed more than {MAX_GREETING_BYTES // 2**20} MiB, and its agent did not start",
                    hint="look at the start-up files of its shell, such as ~/.bashrc and /etc/profile",
                )
        stderr = (await lines.program.read(2)).decode(errors="replace").strip().splitlines()
        raise DeviceError(f"its agent did not start: {stderr[-1] if stderr else last.decode(errors='replace')}")

    async def _read(self, lines: _Lines) -> None:
        while (line := await lines.next()) is not None:
            self._last_received = time.monotonic()
            message = decode(line)
            if message and message.get("kind") != "beat":
                self.inbox.put_nowait(NodeMessage(self.node, message))

    async def _write(self, program: Program) -> None:
        while True:
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    message = await self._outbox.get()
            except TimeoutError:
                message = {"do": "beat"}
            await program.write(encode(message))

    async def _watch(self) -> None:
        """Raise TimeoutError when the agent has been silent for too long, or when its connection is to be closed."""
        while (left := self._last_received + SILENCE_SECONDS - time.monotonic()) > 0 and not self._dropped.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._dropped.wait()
        raise TimeoutError


class _Lines:
    """The output of an agent, line by line. Raises Unreachable if a line has no end."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._buffer = bytearray()

    async def next(self) -> bytes | None:
        """Return the next line, or None at the end."""
        while (at := self._buffer.find(b"\n")) < 0:
            chunk = await self.program.read(1)
            if not chunk:
                return None
            self._buffer += chunk
            if len(self._buffer) > MAX_LINE_BYTES:
                raise Unreachable(
                    f"it sent a line of more than {MAX_LINE_BYTES // 2**20} MiB",
                    hint="something other than the agent writes to its output: look at the start-up files of its shell",
                )
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line
