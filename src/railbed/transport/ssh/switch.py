"""A switch over SSH: it has its own command line instead of a POSIX shell, so each command uses an exec channel.

Outputs cannot be framed with markers as in `batch`: there is no `printf`. A switch prints error messages on standard
output and may still report success, so refused commands are recognised by their text.

A command can have alternative forms, for a Nexus that refuses the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import asyncssh

from railbed.errors import DeviceError, Unreachable
from railbed.model.reading import MAX_OUTPUT_BYTES, Output
from railbed.parsing.nexus.refusals import refusal_of
from railbed.transport.base import Command, Program
from railbed.transport.batch import CHUNK, PrintsTooMuch, cut_off, unfinished_output

BEGINNING = 64 * 1024
"""A refusal is at the beginning of an output."""
REFUSED = 1
"""The exit status of a refused command; the switch may report success."""


async def run_first_accepted(command: Command, run_line: Callable[[Command], Awaitable[Output]]) -> Output:
    """Run the lines of a command, which are alternatives, until one is not refused; return its output."""
    *alternatives, last = command.script.strip().splitlines()
    for line in alternatives:
        output = await run_line(replace(command, script=line))
        if output.exit != REFUSED:
            return output
    return await run_line(replace(command, script=last))


def no_programs(device: str, command: str) -> DeviceError:
    """Return the refusal to start a program: ours do not run on a switch."""
    return DeviceError(f"{device} is a switch, which cannot run {command.partition(' ')[0]}")


class SshCliTransport:
    """Runs commands one after another over one connection."""

    def __init__(self, device: str, connection: asyncssh.SSHClientConnection) -> None:
        self._device = device
        self._connection = connection

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run the commands. The lines of a command are alternatives: the first that is not refused gives the output."""
        for command in commands:
            yield await run_first_accepted(command, self._run)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Refuse: our programs do not run on a switch."""
        raise no_programs(self._device, command)

    async def _run(self, command: Command) -> Output:
        sent = time.time()
        streams = _Streams()
        try:
            async with asyncio.timeout(command.timeout):
                process = await self._connection.create_process(command.script, encoding=None)
                try:
                    return await self._complete(command, process, streams, sent)
                finally:
                    process.close()  # not awaited: a switch that froze would not confirm it
        except TimeoutError:
            return unfinished_output(self._device, command, bytes(streams.stdout), sent)
        except PrintsTooMuch:
            return cut_off(self._device, command, bytes(streams.stdout), bytes(streams.stderr), sent)
        except (asyncssh.Error, OSError) as error:
            raise Unreachable(f"the connection ended in the middle of {command.key}: {error}") from error

    async def _complete(
        self, command: Command, process: asyncssh.SSHClientProcess[bytes], streams: _Streams, sent: float
    ) -> Output:
        process.stdin.write_eof()
        await streams.read(process)
        await process.wait_closed()
        if process.exit_status is None and self._connection.is_closed():
            raise Unreachable(f"the connection ended in the middle of {command.key}")
        refusal = refusal_of(bytes(streams.stdout[:BEGINNING]).decode("utf-8", "replace"))
        return Output(
            device=self._device,
            key=command.key,
            command=command.script,
            stdout=b"" if refusal else bytes(streams.stdout),
            stderr=refusal.encode() if refusal else bytes(streams.stderr),
            exit=REFUSED if refusal else process.exit_status or 0,
            sent=sent,
            received=time.time(),
        )


@dataclass(slots=True)
class _Streams:
    """The output of a command so far."""

    stdout: bytearray
    stderr: bytearray

    def __init__(self) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()

    async def read(self, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """Read both streams concurrently: a command that fills one would block otherwise."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_read(process.stdout, self.stdout))
                group.create_task(_read(process.stderr, self.stderr))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


async def _read(reader: asyncssh.SSHReader[bytes], into: bytearray) -> None:
    while chunk := await reader.read(CHUNK):
        into += chunk
        if len(into) > MAX_OUTPUT_BYTES:
            raise PrintsTooMuch
