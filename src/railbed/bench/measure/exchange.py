"""One trial between real nodes: servers started, awaited until they listen, clients at the same moment, all ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from railbed.bench.measure.script import Told, unwrapped, wrapped
from railbed.bench.tool import Call, End, Reading, Tool
from railbed.errors import DeviceError, ParseError
from railbed.fleet import Fleet
from railbed.fleet.worker import Call as WorkerCall
from railbed.fleet.worker import Failed, Worker
from railbed.model.output import Output
from railbed.transport.base import Command

READY_SECONDS = 10.0
SLACK_SECONDS = 20.0
"""How much longer than planned a call may take: a machine under load, a connection that is slow to come."""
SAMPLE_SECONDS = 0.01
"""The longest that a small sample of a latency may take: a fabric is far faster, an emulated one is not."""
SLOWEST_BYTES = 12.5e6
"""Bytes a second that a large one moves at least, there and back: 100 Mb/s."""
GOODBYE_SECONDS = 3.0
LISTENING = {"tcp": "0A", "udp": "07"}
"""The state of a socket that waits, as /proc/net tells it."""
NOT_FOUND = 127
IN_USE = ("in use", "couldn't listen", "unable to start listener", "can`t bind")
CLOCK = "correlation coefficient"
"""What perftest says where it cannot measure its clock, as on a machine that is interrupted often."""
TRIES, CLOCK_TRIES = 3, 12
"""A clock is measured within a second, and in vain two times of five on emulated processors that are all busy."""
NOTHING = "measured nothing"
"""What we say of a tool that ended in order without having moved anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One call, with the tool that does it and the name that its outputs are kept under."""

    tool: Tool
    call: Call
    key: str

    @property
    def program(self) -> str:
        """The program that both nodes need."""
        return self.tool.tests[self.call.test].program

    @property
    def seconds(self) -> float:
        """The longest that it may take."""
        test, settings = self.call.test, self.call.settings
        planned = self.tool.planned(test, settings) * 2 + SLACK_SECONDS
        if not self.tool.tests[test].latency:
            return planned
        return planned + settings.samples * (SAMPLE_SECONDS + 2 * (settings.size or 0) / SLOWEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of a job."""

    reading: Reading
    client: Told
    server: Told | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Why there is no number: a value of the pair it concerns, never the end of the run."""

    reason: str
    remedy: str = ""
    node: str = ""
    """Where it failed, where that is known."""
    lost: bool = False
    """The node does not answer any more."""
    tries: int = 1
    """How often it is tried in all: where the port was taken, or the tool could not measure its own clock, again."""
    missing: bool = False
    """The program is not installed."""
    evidence: str = ""

    @property
    def retry(self) -> bool:
        """Whether trying again may do."""
        return self.tries > 1


async def run_together(fleet: Fleet, jobs: Sequence[Assignment]) -> list[Measured | NotMeasured]:
    """Run jobs at the same time: all servers listen before the first client starts. Nothing is left running."""
    servers = [_Server(fleet, job) for job in jobs]
    try:
        started = await asyncio.gather(*(server.start() for server in servers))
        return await asyncio.gather(
            *(server.measured(why) for server, why in zip(servers, started, strict=True)),
        )
    finally:
        await asyncio.gather(*(server.stop() for server in servers))


class _Server:
    """The side that waits, and the client that comes to it."""

    def __init__(self, fleet: Fleet, job: Assignment) -> None:
        self._fleet = fleet
        self._job = job
        self._task: asyncio.Task[Output] | None = None

    async def start(self) -> NotMeasured | None:
        """Start it and wait until it listens; return why it does not. Where no server is needed, do nothing."""
        job, build = self._job, self._job.tool.server
        if build is None:
            return None
        node = job.call.server.node
        script = wrapped(build(job.call), job.call.server)
        command = Command(
            key=f"{job.key}.server",
            script=script,
            timeout=job.seconds + READY_SECONDS + SLACK_SECONDS,
            tool=job.program,
            endless=True,
        )
        self._task = asyncio.create_task(self._fleet.ask(node, command))
        look = Command(key=f"{job.key}.listening", script=_await_listening(job), timeout=READY_SECONDS + SLACK_SECONDS)
        looking = asyncio.create_task(self._fleet.ask(node, look))
        try:
            await asyncio.wait({self._task, looking}, return_when=asyncio.FIRST_COMPLETED)
            if failure := self._failure():
                return failure
            return None if (await looking).exit == 0 else self._never_came()
        except DeviceError as error:
            return _lost(node, error)
        finally:
            await _ended(looking)

    async def measured(self, why: NotMeasured | None) -> Measured | NotMeasured:
        """Run the client, and return what came of it."""
        if why:
            return why
        job = self._job
        client = asyncio.create_task(self._fleet.ask(job.call.client.node, _client_command(job)))
        try:
            await asyncio.wait({client, *([self._task] if self._task else [])}, return_when=asyncio.FIRST_COMPLETED)
            if not client.done():
                # The server ended first: in order, or the client has nobody to talk to.
                await asyncio.wait({client}, timeout=GOODBYE_SECONDS if self._failure() else job.seconds)
            if not client.done():
                return self._failure() or NotMeasured(reason=f"{job.program} did not end", node=job.call.client.node)
            outcome = await _understood_in_time(job, client.result())
        except DeviceError as error:
            return _lost(job.call.client.node, error)
        finally:
            await _ended(client)
        if isinstance(outcome, NotMeasured):
            return self._more_telling(outcome)
        return Measured(reading=outcome[0], client=outcome[1], server=await self._last_words())

    async def stop(self) -> None:
        """End it, whatever it does."""
        if self._task:
            await _ended(self._task)

    def _more_telling(self, why: NotMeasured) -> NotMeasured:
        """Return the server's reason, where it is the cause: it is gone, or its program or port was not to be had."""
        failure = self._failure()
        return failure if failure and (failure.lost or failure.missing or failure.retry) else why

    def _failure(self) -> NotMeasured | None:
        """Return why the server ended, where it did and not in order."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        node = self._job.call.server.node
        try:
            output = self._task.result()
        except DeviceError as error:
            return _lost(node, error)
        in_order = output.exit == 0 and self._job.tool.ends_itself
        return None if in_order else _refused(self._job, self._job.call.server, output)

    def _never_came(self) -> NotMeasured:
        call = self._job.call
        return NotMeasured(
            reason=f"{self._job.program} on {call.server.node} did not listen on port {call.port} "
            f"within {READY_SECONDS:g} s",
            remedy=f"run it there by hand: {self._job.tool.server(call) if self._job.tool.server else ''}",
            node=call.server.node,
        )

    async def _last_words(self) -> Told | None:
        """Return what the server printed, where it ends by itself."""
        if self._task is None or not self._job.tool.ends_itself:
            return None
        await asyncio.wait({self._task}, timeout=GOODBYE_SECONDS)
        if not self._task.done() or self._failure():
            return None
        return unwrapped(self._task.result().text)


async def _understood_in_time(job: Assignment, output: Output) -> tuple[Reading, Told] | NotMeasured:
    """Return the values, or why there are none; reading them takes no longer than measuring them might have."""
    async with Worker({job.tool.name: partial(understood, job)}) as worker:
        (result,) = await worker.run([WorkerCall(name=job.tool.name, argument=output, seconds=job.seconds)])
    if isinstance(result, Failed):
        reason = f"railbed's parser of {job.program} {result.reason}"
        return NotMeasured(reason=reason, remedy="please report it", node=job.call.client.node)
    outcome: tuple[Reading, Told] | NotMeasured = result.value
    return outcome


def understood(job: Assignment, output: Output) -> tuple[Reading, Told] | NotMeasured:
    """Return the values in what a client printed, or why there are none."""
    if output.exit is None or output.exit == NOT_FOUND:
        return _refused(job, job.call.client, output)
    if excess := output.excess():
        return _refused(job, job.call.client, output, f"it {excess}")
    told = unwrapped(output.text)
    try:
        reading = job.tool.parse(told.output)
    except ParseError as error:
        return _refused(job, job.call.client, output, error.message)
    return (reading, told) if output.exit == 0 else _refused(job, job.call.client, output)


def _client_command(job: Assignment) -> Command:
    version = job.tool.version(job.call.test) if job.tool.version else ""
    script = wrapped(job.tool.client(job.call), job.call.client, version=version)
    return Command(key=f"{job.key}.client", script=script, timeout=job.seconds, tool=job.program)


def _await_listening(job: Assignment) -> str:
    """Return a script that ends when somebody listens on the port, by the kernel's own table."""
    kind = job.tool.listens(job.call.test)
    line = f":{job.call.port:04X} [0-9A-F]+:[0-9A-F]+ {LISTENING[kind]} "
    look = f"grep -qsE '{line}' /proc/net/{kind} /proc/net/{kind}6"
    end = f"end=$(($(date +%s) + {READY_SECONDS:.0f}))"
    return f"{end}; until {look}; do [ $(date +%s) -lt $end ] || exit 1; sleep 0.05; done"


def _refused(job: Assignment, end: End, output: Output, said: str = "") -> NotMeasured:
    """Return why a program did not do its work."""
    if output.exit == NOT_FOUND:
        return NotMeasured(
            reason=f"{job.program} is not installed on {end.node}",
            remedy=f"install the package {job.tool.package} there",
            node=end.node,
            missing=True,
        )
    words = output.stderr.decode("utf-8", "replace").strip().splitlines()
    told = unwrapped(output.text).output
    said_all = "\n".join([*words, told])
    tries, known, remedy = _passing(job, f"{said_all}\n{said}".lower())
    first = next((line.strip() for line in words if line.strip()), "")
    why = output.failure or known or first or said or f"exit {output.exit}"
    return NotMeasured(
        reason=f"{job.program} on {end.node}: {why}",
        node=end.node,
        tries=tries,
        remedy=remedy,
        evidence=said_all[-2000:],
    )


def _passing(job: Assignment, said: str) -> tuple[int, str, str]:
    """Return how often to try what may pass, what is wrong where the tool's own words do not tell, and a remedy."""
    if any(word in said for word in IN_USE):
        remedy = f"something there listens on port {job.call.port}: another `first_port` in a suite file"
        return TRIES, "", remedy
    if CLOCK in said:
        what = "it could not measure the processor's clock"
        return CLOCK_TRIES, what, "that machine is too busy: measure again when it is idle"
    if NOTHING in said:
        return TRIES, "", "more `seconds` in a suite file, or a machine that is less busy"
    return 1, "", ""


def _lost(node: str, error: DeviceError) -> NotMeasured:
    return NotMeasured(reason=f"{node}: {error.message}", remedy=error.hint, node=node, lost=True)


async def _ended(task: asyncio.Task[Output]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
