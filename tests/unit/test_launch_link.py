"""Our end of an agent that does not come to speak."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from railbed.fleet import Fleet
from railbed.launch import link
from railbed.launch.link import Heard, Link


class SilentFleet:
    """Lets a program start that says nothing, as a login shell does in its start-up files."""

    @asynccontextmanager
    async def open(self, node: str, command: str) -> AsyncIterator[Any]:  # noqa: ARG002
        yield self

    async def read(self, stream: int) -> bytes:  # noqa: ARG002
        await asyncio.Event().wait()
        return b""

    async def hang_up(self, node: str) -> None:
        """Nothing to close."""


async def test_an_agent_that_never_starts_is_not_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "HELLO_SECONDS", 0.01)
    inbox: asyncio.Queue[Heard] = asyncio.Queue()
    keeping = asyncio.create_task(Link("n1", "agent", inbox).keep(cast("Fleet", SilentFleet())))
    async with asyncio.timeout(10):
        heard = await inbox.get()
    keeping.cancel()
    assert heard.message["kind"] == "lost"
    assert "did not start" in str(heard.message["why"])
    assert "login shell" in str(heard.message["why"])
