"""Failures that a test injects: commands that the switch refuses or holds, and connections that are cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Faults:
    refused: dict[str, str] = field(default_factory=dict)
    commands_until_cut: int | None = None
    holds: dict[str, asyncio.Event] = field(default_factory=dict)
    """Starts of commands that wait, before they run, until the event is set."""
    waiting: list[str] = field(default_factory=list)
    """Commands that wait now."""

    def error_for(self, command: str) -> str | None:
        """Return the error that a command gets instead of being run."""
        line = " ".join(command.split())
        return next((error for start, error in self.refused.items() if line.startswith(start)), None)

    def hold(self, command: str) -> None:
        """Have commands that start like this wait."""
        self.holds.setdefault(command, asyncio.Event())

    def release(self) -> None:
        """Let all commands run."""
        for released in self.holds.values():
            released.set()
        self.holds.clear()

    def find_hold(self, command: str) -> asyncio.Event | None:
        """Return the event that a command has to wait for."""
        line = " ".join(command.split())
        return next((event for start, event in self.holds.items() if line.startswith(start)), None)

    async def wait(self, command: str, event: asyncio.Event, closed: Awaitable[None]) -> bool:
        """Wait while a command is held; return whether to run it: not if its connection closes meanwhile."""
        line = " ".join(command.split())
        released, ended = asyncio.ensure_future(event.wait()), asyncio.ensure_future(closed)
        self.waiting.append(line)
        try:
            await asyncio.wait((released, ended), return_when=asyncio.FIRST_COMPLETED)
            return not ended.done()
        finally:
            released.cancel()
            ended.cancel()
            self.waiting.remove(line)

    def count_command(self) -> bool:
        """Count a command that has run; return whether the connections are cut before its reply."""
        if self.commands_until_cut is None:
            return False
        self.commands_until_cut -= 1
        if self.commands_until_cut > 0:
            return False
        self.commands_until_cut = None
        return True
