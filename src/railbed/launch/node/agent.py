"""The end of a launch on a node: `python -m railbed.launch.node.agent FOLDER [MODULE…]`.

It starts ranks, relays what they say, and ends them when it is told to, when its input ends, or when control has been
silent for too long, as after a power cut over there. The kernel ends the ranks when the agent itself is killed. Modules
that all ranks need are loaded once, by the fork server; the agent itself uses only the standard library.
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
from railbed.launch.node.spawn import Child, Spawner
from railbed.launch.protocol import BEAT_SECONDS, LINE_LIMIT, SILENCE_SECONDS, Message, decode, encode

TERM_SECONDS = 1.0
REACH_SECONDS = 2.0
HALTED_SECONDS = 2.0
"""A rank that is stopped for so long holds up the others; a shorter stop is as harmless as a slow step."""
BACKLOG_BYTES = 16 * 2**20
NOT_STARTED = 127
"""Exit code of a rank that could not be started, as a shell has it."""


class Rank:
    """One process of the job."""

    def __init__(self, number: int, generation: int, child: Child) -> None:
        self.number = number
        self.generation = generation
        self.child = child
        self.halted = 0.0
        """Since when it has been stopped, as by SIGSTOP; 0 where it is not."""
        self.tasks: list[asyncio.Task[None]] = []


class Agent:
    """Serves one control."""

    def __init__(self, folder: Path, out: asyncio.StreamWriter, spawner: Spawner) -> None:
        self._folder = folder
        self._out = out
        self._spawner = spawner
        self._ranks: set[Rank] = set()
        self._asked: asyncio.Queue[Message] = asyncio.Queue()
        self._asides: set[asyncio.Task[None]] = set()
        self._heard = time.monotonic()
        self._door: asyncio.Server | None = None

    async def serve(self, control: asyncio.StreamReader) -> None:
        """Do what control says until it ends or falls silent; then leave no rank behind."""
        await self._spawner.open()
        tasks = [asyncio.create_task(work) for work in (self._beat(), self._listen(control), self._work())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *self._asides):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._stop(grace=0.0)
            await self._spawner.close()
            if self._door:
                self._door.close()

    def say(self, message: Message) -> None:
        """Send a message; logs are dropped where control does not keep up, all else is small."""
        backlog = self._out.transport.get_write_buffer_size()
        if message["kind"] != "log" or backlog < BACKLOG_BYTES:
            self._out.write(encode(message))

    async def _beat(self) -> None:
        while time.monotonic() - self._heard < SILENCE_SECONDS:
            self.say({"kind": "beat", "ranks": sorted(rank.number for rank in self._ranks)})
            self._look_for_halted()
            await asyncio.sleep(BEAT_SECONDS)

    def _look_for_halted(self) -> None:
        """Tell of ranks that are stopped: they cannot say so, and one that starts may be silent for long."""
        now = time.monotonic()
        for rank in self._ranks:
            halted = rank.child.is_halted()
            rank.halted = (rank.halted or now) if halted else 0.0
            if halted and now - rank.halted >= HALTED_SECONDS:
                self.say({"kind": "halted", "generation": rank.generation, "rank": rank.number})

    async def _listen(self, control: asyncio.StreamReader) -> None:
        while line := await control.readline():
            self._heard = time.monotonic()
            message = decode(line)
            if message and message.get("do") != "beat":
                self._asked.put_nowait(message)

    async def _work(self) -> None:
        """Obey one request after the other; control is heard meanwhile, however long one takes."""
        while True:
            await self._obey(await self._asked.get())

    async def _obey(self, message: Message) -> None:
        match message:
            case {"do": "start", "generation": int(generation), "ranks": list(ranks)}:
                for rank in ranks:
                    await self._start(generation, rank)
            case {"do": "stop", "generation": int(generation)}:
                await self._stop(grace=float(message.get("grace", TERM_SECONDS)))
                self.say({"kind": "stopped", "generation": generation})
            case {"do": "write", "name": str(name), "text": str(text)}:
                with contextlib.suppress(OSError):  # the job goes on without it
                    _write(self._folder / name, text)
            case {"do": "door", "address": str(address)}:
                self._aside(self._open_door(address))
            case {"do": "reach", "doors": dict(doors), "question": int(question)}:
                self._aside(self._try_doors(doors, question))
            case _:
                self.say({"kind": "error", "message": f"unknown request {message.get('do')!r}"})

    async def _start(self, generation: int, rank: dict[str, Any]) -> None:
        number = int(rank["rank"])
        name = f"rank{number}.g{generation}"
        job = self._folder / f"{name}.json"
        try:
            _write(job, rank["job"])
        except OSError as error:
            self._tell_not_started(generation, number, f"{job} cannot be written: {os_reason(error)}")
            return
        (output, its_output), (messages, its_messages) = os.pipe(), os.pipe()
        command = [part.replace("{job}", str(job)) for part in rank["command"]]
        try:
            child = await self._spawner.start(f"rank{number}", command, rank.get("env", {}), its_output, its_messages)
        except OSError as error:
            os.close(output)
            os.close(messages)
            self._tell_not_started(generation, number, str(error))
            return
        finally:
            os.close(its_output)
            os.close(its_messages)
        started = Rank(number, generation, child)
        self._ranks.add(started)
        started.tasks = [
            asyncio.create_task(self._relay_messages(started, messages)),
            asyncio.create_task(self._relay_log(started, output, self._folder / f"{name}.log")),
        ]
        started.tasks.append(asyncio.create_task(self._await_end(started)))

    def _tell_not_started(self, generation: int, number: int, why: str) -> None:
        self.say({"kind": "exit", "generation": generation, "rank": number, "code": NOT_STARTED, "said": why})

    async def _relay_messages(self, rank: Rank, descriptor: int) -> None:
        reader = await _reader(os.fdopen(descriptor, "rb", buffering=0))
        with contextlib.suppress(ValueError):  # a line without an end
            while line := await reader.readline():
                message = decode(line)
                if message:
                    self.say(
                        {"kind": "message", "generation": rank.generation, "rank": rank.number, "message": message}
                    )

    async def _relay_log(self, rank: Rank, descriptor: int, path: Path) -> None:
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
                self.say({"kind": "log", "generation": rank.generation, "rank": rank.number, "text": text})

    async def _await_end(self, rank: Rank) -> None:
        code = await rank.child.code
        await asyncio.wait(rank.tasks[:2], timeout=TERM_SECONDS)  # what it said last comes before its end
        self._ranks.discard(rank)
        rank.child.signal(signal.SIGKILL)  # what it started itself
        self.say({"kind": "exit", "generation": rank.generation, "rank": rank.number, "code": code})

    async def _stop(self, grace: float) -> None:
        """End all ranks: politely for as long as that takes, then for good."""
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

    async def _open_door(self, address: str) -> None:
        """Once ranks can start at once, listen where the others can try whether this node is reached over its rail."""
        await self._spawner.ready()
        if self._door:
            self._door.close()
        try:
            self._door = await asyncio.start_server(lambda _, writer: writer.close(), address, 0)
        except OSError as error:
            self.say({"kind": "door", "port": None, "why": str(error)})
            return
        self.say({"kind": "door", "port": self._door.sockets[0].getsockname()[1]})

    async def _try_doors(self, doors: dict[str, list[Any]], question: int) -> None:
        self.say({"kind": "reach", "question": question, "unreached": await _unreached(doors)})

    def _aside(self, work: Coroutine[object, object, None]) -> None:
        """Do something that must not hold up the next request."""
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)


async def _unreached(doors: dict[str, list[Any]]) -> dict[str, str]:
    """Return the nodes whose doors cannot be knocked at, and why."""

    async def knock(address: str, port: int) -> str:
        try:
            async with asyncio.timeout(REACH_SECONDS):
                _, writer = await asyncio.open_connection(address, port)
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return os.strerror(error.errno) if error.errno else str(error)
        writer.close()
        return ""

    answers = await asyncio.gather(*(knock(str(address), int(port)) for address, port in doors.values()))
    return {node: why for node, why in zip(doors, answers, strict=True) if why}


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, for nobody else to read: a job has a secret in it."""
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
    agent.say({"kind": "hello", "pid": os.getpid(), "host": socket.gethostname(), "python": sys.version.split()[0]})
    await agent.serve(control)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal's Ctrl-C is control's to handle
    os.umask(0o077)  # ranks have it from here
    own = Path(sys.argv[1])
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = hold(own)
        asyncio.run(_main(own, sys.argv[2:]))
    except OSError as fault:
        sys.exit(f"{fault.filename or own}: {os_reason(fault)}")
