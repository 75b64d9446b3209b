"""The agent, which runs on each node: `python -m railbed.launch.node.agent FOLDER [MODULE…]`.

It starts ranks, relays their messages and output, and ends them on request, when its input ends, or when control has
been silent for too long, as after a power cut at the other end. The kernel ends the ranks when the agent itself is
killed. Modules that all ranks need are loaded once, by the fork server; the agent uses only the standard library.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from railbed.errors import os_reason
from railbed.launch.files.guard import hold
from railbed.launch.messages import BEAT_SECONDS, LINE_LIMIT, SILENCE_SECONDS, Message, decode, encode
from railbed.launch.node.meeting import MeetingPort
from railbed.launch.node.spawn import Child, Spawner

TERM_SECONDS = 1.0
REACH_SECONDS = 2.0
HALTED_SECONDS = 2.0
"""A rank that is stopped for this long holds up the others; a shorter stop is as harmless as a slow step."""
BACKLOG_BYTES = 16 * 2**20
NOT_STARTED = 127
"""Exit code of a rank that could not be started, as in a shell."""


class RankProcess:
    """One process of the job."""

    def __init__(self, number: int, generation: int, child: Child) -> None:
        self.number = number
        self.generation = generation
        self.child = child
        self.halted = 0.0
        """Since when it has been stopped, as by SIGSTOP; 0 while it runs."""
        self.tasks: list[asyncio.Task[None]] = []


class Agent:
    """Serves one supervisor, over standard input and output."""

    def __init__(self, folder: Path, out: asyncio.StreamWriter, spawner: Spawner) -> None:
        self._folder = folder
        self._out = out
        self._spawner = spawner
        self._ranks: set[RankProcess] = set()
        self._requests: asyncio.Queue[Message] = asyncio.Queue()
        self._background: set[asyncio.Task[None]] = set()
        self._last_received = time.monotonic()
        self._listener: asyncio.Server | None = None
        self._meeting = MeetingPort()

    async def serve(self, control: asyncio.StreamReader) -> None:
        """Serve requests until control ends or falls silent; then leave no rank behind."""
        await self._spawner.open()
        tasks = [asyncio.create_task(work) for work in (self._beat(), self._read(control), self._work())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *self._background):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._stop(grace=0.0)
            await self._spawner.close()
            if self._listener:
                self._listener.close()
            self._meeting.close()

    def send(self, message: Message) -> None:
        """Send a message; logs are dropped if control does not keep up, everything else is small."""
        backlog = self._out.transport.get_write_buffer_size()
        if message["kind"] != "log" or backlog < BACKLOG_BYTES:
            self._out.write(encode(message))

    async def _beat(self) -> None:
        while time.monotonic() - self._last_received < SILENCE_SECONDS:
            self.send({"kind": "beat", "ranks": sorted(rank.number for rank in self._ranks)})
            self._report_halted()
            await asyncio.sleep(BEAT_SECONDS)

    def _report_halted(self) -> None:
        """Report stopped ranks: they cannot report it themselves, and ranks that are starting may be silent anyway."""
        now = time.monotonic()
        for rank in self._ranks:
            halted = rank.child.is_halted()
            rank.halted = (rank.halted or now) if halted else 0.0
            if halted and now - rank.halted >= HALTED_SECONDS:
                self.send({"kind": "halted", "generation": rank.generation, "rank": rank.number})

    async def _read(self, control: asyncio.StreamReader) -> None:
        while line := await control.readline():
            self._last_received = time.monotonic()
            message = decode(line)
            if message and message.get("do") != "beat":
                self._requests.put_nowait(message)

    async def _work(self) -> None:
        """Handle one request after the other.

        This is a separate task, so that control's heartbeats are read meanwhile: a slow stop must not
        look like silence of control.
        """
        while True:
            await self._handle(await self._requests.get())

    async def _handle(self, message: Message) -> None:
        match message:
            case {"do": "start", "generation": int(generation), "ranks": list(ranks)}:
                for rank in ranks:
                    await self._start(generation, rank)
            case {"do": "stop", "generation": int(generation)}:
                await self._stop(grace=float(message.get("grace", TERM_SECONDS)))
                self.send({"kind": "stopped", "generation": generation})
            case {"do": "write", "name": str(name), "text": str(text)}:
                with contextlib.suppress(OSError):  # the job goes on without it
                    _write(self._folder / name, text)
            case {"do": "listen", "address": str(address)}:
                self._in_background(self._listen(address))
            case {"do": "meet", "address": str(address), "port": int(port), "generation": int(generation)}:
                self._in_background(self._meet(address, port, generation))
            case {"do": "reach", "listeners": dict(listeners), "question": int(question)}:
                self._in_background(self._test_reach(listeners, question))
            case _:
                self.send({"kind": "error", "message": f"unknown request {message.get('do')!r}"})

    async def _start(self, generation: int, rank: dict[str, Any]) -> None:
        number = int(rank["rank"])
        name = f"rank{number}.g{generation}"
        job = self._folder / f"{name}.json"
        try:
            _write(job, rank["job"])
        except OSError as error:
            self._report_not_started(generation, number, f"{job} cannot be written: {os_reason(error)}")
            return
        (output, its_output), (messages, its_messages) = os.pipe(), os.pipe()
        command = [part.replace("{job}", str(job)) for part in rank["command"]]
        inherited = {"messages": its_messages}
        try:
            if "{listener}" in command:
                inherited["listener"] = self._meeting.descriptor
            child = await self._spawner.start(f"rank{number}", command, rank.get("env", {}), its_output, **inherited)
        except OSError as error:
            os.close(output)
            os.close(messages)
            self._report_not_started(generation, number, str(error))
            return
        finally:
            os.close(its_output)
            os.close(its_messages)
        started = RankProcess(number, generation, child)
        self._ranks.add(started)
        started.tasks = [
            asyncio.create_task(self._relay_messages(started, messages)),
            asyncio.create_task(self._relay_log(started, output, self._folder / f"{name}.log")),
        ]
        started.tasks.append(asyncio.create_task(self._await_end(started)))

    def _report_not_started(self, generation: int, number: int, why: str) -> None:
        self.send({"kind": "exit", "generation": generation, "rank": number, "code": NOT_STARTED, "why": why})

    async def _relay_messages(self, rank: RankProcess, descriptor: int) -> None:
        reader = await _reader(os.fdopen(descriptor, "rb", buffering=0))
        with contextlib.suppress(ValueError):  # a line without an end
            while line := await reader.readline():
                message = decode(line)
                if message:
                    self.send(
                        {"kind": "message", "generation": rank.generation, "rank": rank.number, "message": message}
                    )

    async def _relay_log(self, rank: RankProcess, descriptor: int, path: Path) -> None:
        reader = await _reader(os.fdopen(descriptor, "rb", buffering=0))
        with contextlib.ExitStack() as stack:
            log = None
            with contextlib.suppress(OSError):  # a full disk must not end the job
                log = stack.enter_context(path.open("ab", buffering=0))
            while chunk := await reader.read(LINE_LIMIT // 16):
                with contextlib.suppress(OSError):
                    if log:
                        log.write(chunk)
                text = chunk.decode(errors="replace")
                self.send({"kind": "log", "generation": rank.generation, "rank": rank.number, "text": text})

    async def _await_end(self, rank: RankProcess) -> None:
        code = await rank.child.code
        await asyncio.wait(rank.tasks[:2], timeout=TERM_SECONDS)  # its last message comes before its end
        self._ranks.discard(rank)
        rank.child.signal(signal.SIGKILL)  # the processes that it started
        self.send({"kind": "exit", "generation": rank.generation, "rank": rank.number, "code": code})

    async def _stop(self, grace: float) -> None:
        """End all ranks: with SIGTERM for as long as `grace` allows, then with SIGKILL."""
        ranks = list(self._ranks)
        ends = [rank.tasks[-1] for rank in ranks]
        if not ends:
            return
        if grace:
            for rank in ranks:
                rank.child.signal(signal.SIGTERM)
            await asyncio.wait(ends, timeout=grace)
        for rank in ranks:
            rank.child.signal(signal.SIGKILL)
        await asyncio.wait(ends, timeout=5.0)

    async def _listen(self, address: str) -> None:
        """Once ranks can start at once, listen on the rail, so that the others can test whether they reach this node.

        An open listener therefore means two things to control: the rail address exists, and ranks can be started.
        """
        await self._spawner.ready()
        if self._listener:
            self._listener.close()
        try:
            self._listener = await asyncio.start_server(lambda _, writer: writer.close(), address, 0)
        except OSError as error:
            self.send({"kind": "listening", "port": None, "why": str(error)})
            return
        self.send({"kind": "listening", "port": self._listener.sockets[0].getsockname()[1]})

    async def _meet(self, address: str, port: int, generation: int) -> None:
        """Open the port on which the ranks of a generation meet; rank 0 inherits it."""
        answer: Message = {"kind": "meeting", "generation": generation}
        try:
            self.send({**answer, "port": await self._meeting.open(address, port)})
        except OSError as error:
            self.send({**answer, "port": None, "why": os_reason(error)})

    async def _test_reach(self, listeners: dict[str, list[Any]], question: int) -> None:
        self.send({"kind": "reach", "question": question, "unreached": await _find_unreached(listeners)})

    def _in_background(self, work: Coroutine[object, object, None]) -> None:
        """Do something that must not hold up the next request."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _find_unreached(listeners: dict[str, list[Any]]) -> dict[str, str]:
    """Return the nodes that cannot be connected to, and why."""

    async def connect(address: str, port: int) -> str:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), REACH_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            return "no answer"
        except OSError as error:
            return os.strerror(error.errno) if error.errno else str(error)
        writer.close()
        return ""

    answers = await asyncio.gather(*(connect(str(address), int(port)) for address, port in listeners.values()))
    return {node: why for node, why in zip(listeners, answers, strict=True) if why}


def _write(path: Path, text: str) -> None:
    """Write a file atomically, for nobody else to read: a job file contains a secret."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


async def _reader(file: Any) -> asyncio.StreamReader:  # noqa: ANN401  (any pipe)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader


async def _writer(file: Any) -> asyncio.StreamWriter:  # noqa: ANN401  (any pipe)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop=loop), file)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _main(folder: Path, modules: list[str]) -> None:
    control = await _reader(sys.stdin.buffer)
    agent = Agent(folder, await _writer(sys.stdout.buffer), Spawner(folder, modules))
    agent.send({"kind": "hello", "pid": os.getpid(), "host": socket.gethostname(), "python": sys.version.split()[0]})
    await agent.serve(control)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # control handles the terminal's Ctrl-C
    if "SLURM_JOB_ID" in os.environ:
        # Slurm sends it to everything in a job that it ends. Control gets it, too, and lets the ranks save their state.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.umask(0o077)  # ranks inherit it
    own = Path(sys.argv[1])
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = hold(own)
        asyncio.run(_main(own, sys.argv[2:]))
    except OSError as fault:
        sys.exit(f"{fault.filename or own}: {os_reason(fault)}")
