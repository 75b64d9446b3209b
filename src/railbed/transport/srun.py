"""Nodes of a Slurm job, through `srun`: every program is a step of the job, beside whatever else runs there.

A step takes long to start, compared with a program over SSH. So each connection has a spare step, whose shell waits for
its program: the next program starts at once, and the step for the one after it starts meanwhile.
"""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self

from railbed.errors import Gone, ProgramRefused, ToolMissing, Unreachable
from railbed.model.reading import Output
from railbed.transport.base import Command, Program, Target, Transport
from railbed.transport.batch import run_batch
from railbed.transport.local import ChildProgram, drained_in, signal_group, wait_despite_cancellation
from railbed.transport.secret import resolve
from railbed.transport.slurm import complaint, slurm_environment

OPTIONS = (
    "--overlap",
    "--no-kill",
    "--nodes=1",
    "--ntasks=1",
    "--cpu-bind=none",
    "--mem=0",
    "--mpi=none",
    "--unbuffered",
    "--quiet",
    "--job-name=railbed",
    "--chdir=/",
)
PASSED = ("HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "USER")
"""Variables that a program on a node gets from us. By default srun sends all of them, passwords included."""
WAIT_AND_RUN = 'cd 2>/dev/null; read -r size && program=$(PATH=$PATH:/usr/bin:/bin head -c "$size") && eval "$program"'
"""The shell of a step: it reads its program, of known length, and runs it. So no program is in a list of processes."""
SPARE_SECONDS = 60.0
"""How long a spare step waits for a program: one that is not needed soon must not occupy the node for hours."""
ENDING_SECONDS, ABORTING_SECONDS = 3.0, 10.0
"""How long a program may take to end when its input is closed, and how long srun may take to abort the step."""
COMPLAINT_BYTES = 4096
FOR_GOOD = ("Requested node configuration is not available", " has expired", "Invalid job id specified")
"""Why Slurm refuses a step on a node that the job no longer has, and in a job that has ended: they do not return."""
HINT = "`squeue` lists the nodes that the job has, `sinfo --list-reasons` why nodes are down"


class SrunConnector:
    """Connects to nodes of a job, and waits in the end until every program there has ended.

    Every program is a step of its own: to close one connection to a node does not end the programs of others there.
    """

    def __init__(self, *, spares: bool = True) -> None:
        self._spares = spares
        self._endings: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await wait_despite_cancellation(asyncio.create_task(_wait_for(self._endings)))

    @asynccontextmanager
    async def connect(self, target: Target) -> AsyncIterator[Transport]:
        """Connect to a node: its first step shows that the job has it, and that it answers."""
        transport = SrunTransport(target, self._endings, spares=self._spares)
        try:
            await transport.wait_until_it_answers()
            yield transport
        finally:
            transport.close()


async def _wait_for(endings: set[asyncio.Task[None]]) -> None:
    while endings:
        await asyncio.wait(endings)


Step = asyncio.Task["_SrunProgram"]
"""A step that is being started, or has started."""


class SrunTransport:
    """Runs batches in a shell on a node of a job."""

    def __init__(self, target: Target, endings: set[asyncio.Task[None]], *, spares: bool) -> None:
        self._target = target
        self._spares = spares
        """Whether programs follow the first, so that a spare step is worth its price."""
        self._sudo_password = resolve(target.login.sudo) or ""
        self._endings = endings
        self._waiting: deque[Step] = deque()
        """Steps whose shells wait for a program: a spare one, and at first also the one that the node answers with."""
        self._closed = False

    async def wait_until_it_answers(self) -> None:
        """Start a step, and the spare one with it, and wait until the shell of the first runs."""
        first = self._start("echo; " + WAIT_AND_RUN)
        self._waiting.append(first)
        self._start_spare()
        await (await asyncio.shield(first)).wait_for_start()
        self._limit(first)

    def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands on the node."""
        return run_batch(self._target.name, self.open, commands, sudo_password=self._sudo_password)

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[Program]:
        """Start a program on the node."""
        step = self._take_waiting() or self._start(WAIT_AND_RUN)
        try:
            program = await asyncio.shield(step)
            text = command.encode()
            await program.write(b"%d\n%s" % (len(text), text))
            if not self._waiting:
                self._start_spare()
            yield program
        finally:
            self._finish(step)

    def _start(self, script: str) -> Step:
        return asyncio.create_task(_start(self._target, script))

    def _start_spare(self) -> None:
        if self._spares and not self._closed:
            step = self._start(WAIT_AND_RUN)
            self._waiting.append(step)
            self._limit(step)

    def _take_waiting(self) -> Step | None:
        """Return a step that waits, unless it has ended: the next step will show why."""
        if not self._waiting:
            return None
        step = self._waiting.popleft()
        if step.done() and (step.exception() or step.result().has_ended):
            self._finish(step)
            self._drop_waiting()
            return None
        return step

    def _limit(self, step: Step) -> None:
        def expire() -> None:
            if step in self._waiting:
                self._waiting.remove(step)
                self._finish(step)

        asyncio.get_running_loop().call_later(SPARE_SECONDS, expire)

    def close(self) -> None:
        """End the steps that wait, and start no other; programs end with their own contexts."""
        self._closed = True
        self._drop_waiting()

    def _drop_waiting(self) -> None:
        while self._waiting:
            self._finish(self._waiting.popleft())

    def _finish(self, step: Step) -> None:
        # A node that does not answer must not delay the next program: the connector waits for the end of this one.
        ending = asyncio.create_task(_end(step))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)


class _SrunProgram(ChildProgram):
    """Raises ProgramRefused with Slurm's reason if srun ends before the program has printed anything."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._answered = False
        self._complaint = b""

    @property
    def has_ended(self) -> bool:
        """Whether srun has ended."""
        return self._process.returncode is not None

    async def wait_for_start(self) -> None:
        """Wait until the shell of a step that prints something has done so."""
        if await super().read(1):
            return
        while await self.read(2):
            pass
        raise Unreachable("srun ended without starting anything there")

    async def end(self) -> None:
        """Close the input, which ends the program and all it started; then let srun abort the step."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if await drained_in(self._process, ENDING_SECONDS):
            return
        signal_group(self._process, signal.SIGTERM)
        if not await drained_in(self._process, ABORTING_SECONDS):
            signal_group(self._process, signal.SIGKILL)
            await drained_in(self._process, ENDING_SECONDS)

    async def read(self, stream: int) -> bytes:
        """Return the next bytes of a stream."""
        data = await super().read(stream)
        if stream == 1:
            self._answered = self._answered or bool(data)
        elif not self._answered:
            self._complaint = (self._complaint + data)[:COMPLAINT_BYTES]
            if not data and b"srun: " in self._complaint:
                reason = complaint(self._complaint.decode(errors="replace"))
                raise (Gone if reason.endswith(FOR_GOOD) else ProgramRefused)(f"Slurm: {reason}", hint=HINT)
        return data


async def _start(target: Target, script: str) -> _SrunProgram:
    environment = slurm_environment()
    passed = ",".join(name for name in PASSED if name in environment)
    place = (f"--jobid={target.login.slurm_job}", f"--nodelist={target.name}", f"--export={passed or 'NONE'}")
    # Of an option that is there twice, srun uses the last: a site's options change none of ours.
    options = (*(target.login.slurm_options or ()), *OPTIONS, *place)
    try:
        # A new session: Ctrl-C in the terminal reaches only us, and we end the steps in order.
        process = await asyncio.create_subprocess_exec(
            "srun",
            *options,
            "/bin/sh",
            "-c",
            script,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            env=environment,
        )
    except FileNotFoundError:
        raise ToolMissing(
            "srun is not installed here", hint="`apt-get install slurm-client` installs it on Debian"
        ) from None
    return _SrunProgram(process)


async def _end(step: Step) -> None:
    with suppress(ToolMissing, OSError):
        await (await step).end()
