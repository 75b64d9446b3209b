"""Our end of an agent's connection: an agent that never answers, and one that never stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.launch import agentlink
from railbed.launch.agentlink import MAX_LINE_BYTES, AgentLink, NodeMessage, _Lines


class SilentFleet:
    """Starts a program that prints nothing, like a login shell that hangs in its start-up files."""

    @asynccontextmanager
    async def open(self, node: str, command: str) -> AsyncIterator[Any]:  # noqa: ARG002
        yield self

    async def read(self, stream: int) -> bytes:  # noqa: ARG002
        await asyncio.Event().wait()
        return b""

    async def hang_up(self, node: str) -> None:
        """Nothing to close."""


async def test_an_agent_that_never_starts_is_not_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentlink, "HELLO_SECONDS", 0.01)
    inbox: asyncio.Queue[NodeMessage] = asyncio.Queue()
    keeping = asyncio.create_task(AgentLink("n1", "agent", inbox).keep(cast("Fleet", SilentFleet())))
    async with asyncio.timeout(10):
        heard = await inbox.get()
    keeping.cancel()
    assert heard.message["kind"] == "lost"
    assert "did not start" in str(heard.message["why"])
    assert "login shell" in str(heard.message["why"])


class FloodingFleet(SilentFleet):
    """Starts a program that prints lines, in pieces, and then waits."""

    def __init__(self, lines: int) -> None:
        self._left = lines

    async def read(self, stream: int) -> bytes:
        if not self._left:
            return await super().read(stream)
        await asyncio.sleep(0)
        self._left -= 1
        return b"y" * 1023 + b"\n"


@pytest.mark.parametrize(
    ("lines", "why"),
    [(100, "its login printed for 0.3 s, and its agent did not start"), (5000, "its login printed more than 4 MiB")],
)
async def test_a_login_that_floods_is_not_called_slow(lines: int, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentlink, "HELLO_SECONDS", 0.3 if lines == 100 else 60.0)
    monkeypatch.setattr(agentlink, "FLOODED", agentlink.FLOODED.replace("50 s", "0.3 s"))
    inbox: asyncio.Queue[NodeMessage] = asyncio.Queue()
    keeping = asyncio.create_task(AgentLink("n1", "agent", inbox).keep(cast("Fleet", FloodingFleet(lines))))
    async with asyncio.timeout(60):
        lost = await inbox.get()
    keeping.cancel()
    assert str(lost.message["why"]).startswith(why)


class Prints:
    """A program that prints what it is given, piece by piece."""

    def __init__(self, *pieces: bytes, endless: bytes = b"") -> None:
        self._pieces = list(pieces)
        self._endless = endless
        self.printed = 0

    async def write(self, data: bytes) -> None:
        raise AssertionError(data)

    async def read(self, stream: int) -> bytes:
        assert stream == 1
        await asyncio.sleep(0)
        piece = self._pieces.pop(0) if self._pieces else self._endless
        self.printed += len(piece)
        return piece


async def test_lines() -> None:
    lines = _Lines(Prints(b"one\ntw", b"o\n", b"torn"))
    assert [await lines.next(), await lines.next(), await lines.next()] == [b"one", b"two", None]


async def test_a_line_without_end_is_cut_off() -> None:
    program = Prints(endless=b"x" * 65536)
    with pytest.raises(DeviceError, match="it sent a line of more than 4 MiB"):
        await _Lines(program).next()
    assert program.printed <= MAX_LINE_BYTES + 65536
