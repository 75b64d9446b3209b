"""This machine, without SSH."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from railbed.model.output import Output
from railbed.transport.base import Command, Program, Target, Transport
from railbed.transport.batch import run_batch
from railbed.transport.process import ChildProgram, drained_in, signal_group, wait_despite_cancellation
from railbed.transport.secret import resolve

ENDING_SECONDS = 2.0


@asynccontextmanager
async def connect_local(target: Target) -> AsyncIterator[Transport]:
    """Connect to this machine."""
    yield LocalTransport(target.name, resolve(target.login.sudo) or "")


class LocalTransport:
    """Runs batches in a shell on this machine."""

    def __init__(self, device: str, sudo_password: str = "") -> None:
        self._device = device
        self._sudo_password = sudo_password

    def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands on this machine."""
        return run_batch(self._device, self.open, commands, sudo_password=self._sudo_password)

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Start a program on this machine."""
        return _open(command)


@asynccontextmanager
async def _open(command: str) -> AsyncIterator[Program]:
    # A new session: Ctrl-C in the terminal reaches only us, and we end the shell in order, with all it started.
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        yield ChildProgram(process)
    finally:
        await wait_despite_cancellation(asyncio.create_task(_end(process)))


async def _end(process: Process) -> None:
    """End the shell and all it started, with SIGTERM, then SIGKILL; and read its pipes to the end."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal_group(process, number)
        await drained_in(process, ENDING_SECONDS)
