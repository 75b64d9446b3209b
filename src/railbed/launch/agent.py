"""The end of a launch on a node: `python -m railbed.launch.agent FOLDER`.

It starts ranks, relays what they say, and ends them when it is told to, when its input ends, or when control has been
silent for too long, as after a power cut over there. The kernel ends the ranks when the agent itself is killed. Only
the standard library is used, since a node has little more than Python and torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from railbed.launch.protocol import BEAT_SECONDS, LINE_LIMIT, SILENCE_SECONDS, Message, decode, encode

PR_SET_PDEATHSIG = 1
TERM_SECONDS = 1.0
REACH_SECONDS = 2.0
BACKLOG_BYTES = 16 * 2**20
LIBC = ctypes.CDLL(None)


class Rank:
    """One process of the job."""

    def __init__(self, number: int, generation: int, process: Process) -> None:
        self.number = number
        self.generation = generation
        self.process = process
        self.tasks: list[asyncio.Task[None]] = []


class Agent:
    """Serves one control."""

    def __init__(self, folder: Path, out: asyncio.StreamWriter) -> None:
        self._folder = folder
        self._out = out
        self._ranks: dict[int, Rank] = {}
        self._heard = time.monotonic()
        self._door: asyncio.Server | None = None

    async def serve(self, control: asyncio.StreamReader) -> None:
        """Do what control says until it ends or falls silent; then leave no rank behind."""
        tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen(control))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._stop(grace=0.0)
            if self._door:
                self._door.close()

    def say(self, message: Message) -> None:
        """Send a message; logs are dropped where control does not keep up, all else is small."""
        backlog = self._out.transport.get_write_buffer_size()
        if message["kind"] != "log" or backlog < BACKLOG_BYTES:
            self._out.write(encode(message))

    async def _beat(self) -> None:
        while time.monotonic() - self._heard < SILENCE_SECONDS:
            self.say({"kind": "beat", "ranks": sorted(self._ranks)})
            await asyncio.sleep(BEAT_SECONDS)

    async def _listen(self, control: asyncio.StreamReader) -> None:
        while line := await control.readline():
            self._heard = time.monotonic()
            message = decode(line)
            if message and message.get("do") != "beat":
                await self._obey(message)

    async def _obey(self, message: Message) -> None:
        match message:
            case {"do": "start", "generation": int(generation), "ranks": list(ranks)}:
                for rank in ranks:
                    await self._start(generation, rank)
            case {"do": "stop", "generation": int(generation)}:
                await self._stop(grace=float(message.get("grace", TERM_SECONDS)))
                self.say({"kind": "stopped", "generation": generation})
            case {"do": "write", "name": str(name), "text": str(text)}:
                _write(self._folder / name, text)
            case {"do": "door", "address": str(address)}:
                await self._open_door(address)
            case {"do": "reach", "doors": dict(doors)}:
                self.say({"kind": "reach", "unreached": await _unreached(doors)})
            case _:
                self.say({"kind": "error", "message": f"unknown request {message.get('do')!r}"})

    async def _start(self, generation: int, rank: dict[str, Any]) -> None:
        number = int(rank["rank"])
        name = f"rank{number}.g{generation}"
        job = self._folder / f"{name}.json"
        _write(job, rank["job"])
        ours, theirs = os.pipe()
        environment = {**os.environ, **rank.get("env", {})}
        try:
            process = await asyncio.create_subprocess_exec(
                *[part.replace("{job}", str(job)).replace("{messages}", str(theirs)) for part in rank["command"]],
                cwd=self._folder,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(theirs,),
                start_new_session=True,
                preexec_fn=_end_with_agent,
                limit=LINE_LIMIT,
            )
        except OSError as error:
            os.close(ours)
            self.say({"kind": "exit", "generation": generation, "rank": number, "code": 127, "said": str(error)})
            return
        finally:
            os.close(theirs)
        self._ranks[number] = started = Rank(number, generation, process)
        started.tasks = [
            asyncio.create_task(self._relay_messages(started, ours)),
            asyncio.create_task(self._relay_log(started, self._folder / f"{name}.log")),
        ]
        started.tasks.append(asyncio.create_task(self._await_end(started)))

    async def _relay_messages(self, rank: Rank, descriptor: int) -> None:
        reader = await _reader(os.fdopen(descriptor, "rb", buffering=0))
        with contextlib.suppress(ValueError):  # a line without an end
            while line := await reader.readline():
                message = decode(line)
                if message:
                    self.say(
                        {"kind": "message", "generation": rank.generation, "rank": rank.number, "message": message}
                    )

    async def _relay_log(self, rank: Rank, path: Path) -> None:
        assert rank.process.stdout is not None
        with path.open("ab", buffering=0) as log:
            while chunk := await rank.process.stdout.read(LINE_LIMIT // 16):
                with contextlib.suppress(OSError):  # a full disk must not end the job
                    log.write(chunk)
                text = chunk.decode(errors="replace")
                self.say({"kind": "log", "generation": rank.generation, "rank": rank.number, "text": text})

    async def _await_end(self, rank: Rank) -> None:
        code = await rank.process.wait()
        await asyncio.wait(rank.tasks[:2], timeout=TERM_SECONDS)  # what it said last comes before its end
        self._ranks.pop(rank.number, None)
        _kill_group(rank, signal.SIGKILL)  # what it started itself
        self.say({"kind": "exit", "generation": rank.generation, "rank": rank.number, "code": code})

    async def _stop(self, grace: float) -> None:
        """End all ranks: politely for as long as that takes, then for good."""
        ranks = list(self._ranks.values())
        ends = [rank.tasks[-1] for rank in ranks]
        if not ends:
            return
        if grace:
            for rank in ranks:
                _kill_group(rank, signal.SIGTERM)
            await asyncio.wait(ends, timeout=grace)
        for rank in ranks:
            _kill_group(rank, signal.SIGKILL)
        await asyncio.wait(ends, timeout=5.0)

    async def _open_door(self, address: str) -> None:
        """Listen where the other agents can try whether this node is reached over its rail."""
        if self._door:
            self._door.close()
        try:
            self._door = await asyncio.start_server(lambda _, writer: writer.close(), address, 0)
        except OSError as error:
            self.say({"kind": "door", "port": None, "why": str(error)})
            return
        self.say({"kind": "door", "port": self._door.sockets[0].getsockname()[1]})


async def _unreached(doors: dict[str, list[Any]]) -> dict[str, str]:
    """Return the nodes whose doors cannot be knocked at, and why."""

    async def knock(address: str, port: int) -> str:
        try:
            async with asyncio.timeout(REACH_SECONDS):
                _, writer = await asyncio.open_connection(address, port)
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return error.strerror or str(error)
        writer.close()
        return ""

    answers = await asyncio.gather(*(knock(str(address), int(port)) for address, port in doors.values()))
    return {node: why for node, why in zip(doors, answers, strict=True) if why}


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _end_with_agent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill_group(rank: Rank, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(rank.process.pid, number)


async def _reader(file: Any) -> asyncio.StreamReader:  # noqa: ANN401  (any pipe)
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader


async def _writer(file: Any) -> asyncio.StreamWriter:  # noqa: ANN401  (any pipe)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop=loop), file)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _main(folder: Path) -> None:
    control = await _reader(sys.stdin.buffer)
    agent = Agent(folder, await _writer(sys.stdout.buffer))
    agent.say({"kind": "hello", "pid": os.getpid(), "host": socket.gethostname(), "python": sys.version.split()[0]})
    await agent.serve(control)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the terminal's Ctrl-C is control's to handle
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(_main(Path(sys.argv[1])))
