"""Runs functions in a separate process, each with a deadline: one that takes too long is ended and reported.

A regular expression cannot be interrupted from inside Python, so neither a thread nor a signal enforces a deadline.
The process is forked, which takes 4 ms, and inherits the functions; only arguments and results are sent.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import pickle
import resource
import signal
import socket
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

HEADER = 8
"""Bytes before each message, which give its length."""
SLACK_SECONDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a function, and how long it may take."""

    name: str
    argument: object
    seconds: float


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a call returned nothing."""

    reason: str


class Worker:
    """A process that runs some functions; if it is ended, another process takes over."""

    def __init__(self, functions: Mapping[str, Callable[[Any], object]]) -> None:
        self._functions = functions
        self._one_at_a_time = asyncio.Lock()
        self._process: _Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    async def run(self, calls: Sequence[Call], *, seconds: float = math.inf) -> list[Returned | Failed]:
        """Run calls one after another, all of them within `seconds`, and return the result of each."""
        deadline = time.monotonic() + seconds
        results: list[Returned | Failed] = []
        async with self._one_at_a_time:
            while len(results) < len(calls):
                await self._run_until_one_fails(calls[len(results) :], deadline, results)
        return results

    async def _run_until_one_fails(
        self, calls: Sequence[Call], deadline: float, results: list[Returned | Failed]
    ) -> None:
        seconds = 0.0
        complete = False
        try:
            process = self._process or await self._start()
            await process.send([(call.name, call.argument, call.seconds) for call in calls])
            for call in calls:
                seconds = max(0.0, min(call.seconds, deadline - time.monotonic()))
                async with asyncio.timeout(seconds):
                    results.append(await process.receive())
            complete = True
        except TimeoutError:
            results.append(Failed(f"took longer than {seconds:.3g} s"))
        except (asyncio.IncompleteReadError, OSError):
            results.append(Failed("ended the process it ran in"))
        finally:
            if not complete:
                self._end()

    async def _start(self) -> _Process:
        self._process = await _Process.fork(self._functions)
        return self._process

    def _end(self) -> None:
        if self._process:
            self._process.end()
            self._process = None


class _Process:
    """Our end of the process."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pid = pid
        self._reader = reader
        self._writer = writer

    @classmethod
    async def fork(cls, functions: Mapping[str, Callable[[Any], object]]) -> _Process:
        ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            # Python 3.12 warns if there are threads: ours only resolve names, and hold no lock that the child uses.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _serve_and_exit(theirs, functions)
        theirs.close()
        return cls(pid, *await asyncio.open_connection(sock=ours))

    async def send(self, message: object) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._writer.write(len(data).to_bytes(HEADER, "big") + data)
        await self._writer.drain()

    async def receive(self) -> Returned | Failed:
        length = int.from_bytes(await self._reader.readexactly(HEADER), "big")
        answer: Returned | Failed = pickle.loads(await self._reader.readexactly(length))  # noqa: S301  (of our own process)
        return answer

    def end(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._writer.close()


def _serve_and_exit(control: socket.socket, functions: Mapping[str, Callable[[Any], object]]) -> NoReturn:
    """Serve calls until the other end is closed. Exits without running the parent's exit handlers."""
    try:
        _detach_from_parent(control)
        while calls := _read(control):
            for name, argument, seconds in calls:
                _limit_processor_time(seconds)
                answer = pickle.dumps(call_here(functions[name], argument), pickle.HIGHEST_PROTOCOL)
                control.sendall(len(answer).to_bytes(HEADER, "big") + answer)
    finally:
        os._exit(0)


def _detach_from_parent(control: socket.socket) -> None:
    """Leave terminal, connections and signals to the parent process."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.closerange(3, control.fileno())
    os.closerange(control.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    gc.disable()


def _limit_processor_time(seconds: float) -> None:
    """Have the kernel end this process if its parent cannot, for example after kill -9."""
    limit = math.ceil(time.process_time() + min(seconds, 1e6)) + SLACK_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _read(control: socket.socket) -> list[tuple[str, object, float]]:
    header = _read_exactly(control, HEADER)
    calls: list[tuple[str, object, float]] = []
    if header:
        calls = pickle.loads(_read_exactly(control, int.from_bytes(header, "big")))  # noqa: S301  (of our own process)
    return calls


def _read_exactly(control: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = control.recv(min(count - len(data), 1 << 20))
        if not piece:
            return b""
        data += piece
    return bytes(data)


def call_here(function: Callable[[Any], object], argument: object) -> Returned | Failed:
    """Call a function in this process, for arguments that are too small to take long."""
    try:
        return Returned(function(argument))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Failed(f"failed: {type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})")  # noqa: PTH119
