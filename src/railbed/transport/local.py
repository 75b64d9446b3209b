"""This machine, without SSH: a child process as a program of a transport, with its streams and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from railbed.model.reading import Output
from railbed.transport.base import Command, Program, Target, Transport
from railbed.transport.batch import CHUNK, run_batch
from railbed.transport.secret import resolve


class ChildProgram:
    """The streams of a child process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def write(self, data: bytes) -> None:
        """Send input; a process that has ended ignores it."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(data)
            await stdin.drain()

    async def read(self, stream: int) -> bytes:
        """Return the next bytes of standard output (1) or standard error (2); empty at the end."""
        reader = self._process.stdout if stream == 1 else self._process.stderr
        assert reader is not None
        return await reader.read(CHUNK)


async def wait_despite_cancellation(ending: asyncio.Task[None]) -> None:
    """Wait for processes to end, even if cancelled meanwhile: one that ignores SIGTERM would survive otherwise."""
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.wait({ending})
        except asyncio.CancelledError as error:
            cancelled = error
    ending.result()
    if cancelled:
        raise cancelled


async def drain(process: Process) -> None:
    """Wait for a process to end while discarding its output: some never stop printing."""
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        while await stream.read(CHUNK):
            pass
    await process.wait()


async def drained_in(process: Process, seconds: float) -> bool:
    """Wait at most so long for a process to end, and return whether it did."""
    try:
        async with asyncio.timeout(seconds):
            await drain(process)
    except (TimeoutError, OSError):
        return False
    return True


def signal_group(process: Process, number: signal.Signals) -> None:
    """Signal the process group; Process.terminate() would reap the child behind asyncio's back, which then warns."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


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
