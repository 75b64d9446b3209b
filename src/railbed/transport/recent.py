"""Outputs of commands that ran a moment ago: the same commands, in the next fleet, are answered with them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from railbed.model.output import Output
from railbed.transport.base import Command, Connector, Program, Target, Transport

RECENT_SECONDS = 10.0
"""Older outputs are not used: memory, ports and disks may have changed."""


class RecentOutputs:
    """The complete outputs of devices, by command. Each is used once."""

    def __init__(self) -> None:
        self._outputs: dict[tuple[str, str, str], Output] = {}

    def collecting(self, connect: Connector) -> Connector:
        """Return a connector whose outputs are collected here."""

        @asynccontextmanager
        async def connect_and_collect(target: Target) -> AsyncIterator[Transport]:
            async with connect(target) as transport:
                yield _Collecting(transport, self)

        return connect_and_collect

    def answering(self, connect: Connector) -> Connector:
        """Return a connector that answers commands from here, and lets the device run all others."""

        @asynccontextmanager
        async def connect_and_answer(target: Target) -> AsyncIterator[Transport]:
            async with connect(target) as transport:
                yield _Answering(target.name, transport, self)

        return connect_and_answer

    def put(self, output: Output) -> None:
        """Add an output; one whose command did not end is left out."""
        if output.exit is not None and not output.truncated:
            self._outputs[output.device, output.key, output.command] = output

    def take(self, device: str, command: Command) -> Output | None:
        """Return the recent output of a command, and forget it."""
        output = self._outputs.pop((device, command.key, command.script), None)
        return output if output and 0.0 <= time.time() - output.received < RECENT_SECONDS else None


class _Collecting:
    def __init__(self, transport: Transport, outputs: RecentOutputs) -> None:
        self._transport = transport
        self._outputs = outputs

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        return self._transport.open(command)

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        async with aclosing(self._transport.run(commands)) as outputs:
            async for output in outputs:
                self._outputs.put(output)
                yield output


class _Answering:
    def __init__(self, device: str, transport: Transport, outputs: RecentOutputs) -> None:
        self._device = device
        self._transport = transport
        self._outputs = outputs

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        return self._transport.open(command)

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Yield an output per command, in their order."""
        recent = [self._outputs.take(self._device, command) for command in commands]
        others = [command for command, output in zip(commands, recent, strict=True) if output is None]
        async with aclosing(self._transport.run(others)) as outputs:
            for output in recent:
                yield await anext(outputs) if output is None else output
