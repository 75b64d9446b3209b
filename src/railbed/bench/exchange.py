"""One trial on real nodes: start the servers, wait until they listen, run all clients at once, end everything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from railbed.bench.tool import FEW_SAMPLES, End, Tool, ToolCall, ToolResult
from railbed.bench.wrapper import WrappedOutput, unwrap, wrap
from railbed.errors import DeviceError, ParseError
from railbed.fleet import Fleet
from railbed.fleet.worker import Call, Failed, Worker
from railbed.model.reading import Output
from railbed.transport.base import Command

READY_SECONDS = 20.0
SLACK_SECONDS = 20.0
"""How much longer than expected a call may take: a machine under load, a slow connection."""
SAMPLE_SECONDS = 0.01
"""The longest that one small latency sample may take: a real fabric is far faster, an emulated one is not."""
SLOWEST_BYTES = 12.5e6
"""Bytes per second that a large sample moves at least, in a round trip: 100 Mb/s."""
MOST_TIMES = 10
"""How many times as long as its step a latency test may take: its path may be slower than those before it."""
GOODBYE_SECONDS = 3.0
LISTENING = {"tcp": "0A", "udp": "07"}
"""The state of a listening socket in /proc/net."""
NOT_FOUND = 127
IN_USE = ("in use", "couldn't listen", "unable to start listener", "can`t bind")
CLOCK = "correlation coefficient"
"""What perftest prints if it cannot measure the CPU clock, for example on a machine that is interrupted often."""
TRIES, CLOCK_TRIES = 3, 12
"""Measuring the clock takes a second, and fails two times out of five on emulated CPUs that are all busy."""
NOTHING = "measured nothing"
"""Our message for a tool that exited normally without having moved any data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One call, the tool that makes it, and the key under which its outputs are stored."""

    tool: Tool
    call: ToolCall
    key: str

    @property
    def program(self) -> str:
        """The program that both nodes need."""
        return self.tool.tests[self.call.test].program

    @property
    def has_many_samples(self) -> bool:
        """Whether it may end in time if it takes only a few samples."""
        return self.tool.tests[self.call.test].latency and self.call.settings.samples > FEW_SAMPLES

    @property
    def seconds(self) -> float:
        """The longest that it may take."""
        test, settings = self.call.test, self.call.settings
        seconds = self.tool.expected_seconds(test, settings) * 2 + SLACK_SECONDS
        if not self.tool.tests[test].latency:
            return seconds
        slowest = settings.samples * (SAMPLE_SECONDS + 2 * (settings.size or 0) / SLOWEST_BYTES)
        return seconds + min(slowest, MOST_TIMES * settings.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of a successful assignment."""

    reading: ToolResult
    client: WrappedOutput
    server: WrappedOutput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Why there is no number: a result for this pair, never the end of the run."""

    reason: str
    remedy: str = ""
    node: str = ""
    """Where it failed, if known."""
    lost: bool = False
    """The node no longer answers."""
    tries: int = 1
    """How many attempts are worthwhile: more than one if a port was in use or the clock could not be measured."""
    missing: bool = False
    """The program is not installed."""
    evidence: str = ""

    @property
    def retry(self) -> bool:
        """Whether another attempt may succeed."""
        return self.tries > 1


async def run_together(fleet: Fleet, assignments: Sequence[Assignment]) -> list[Measured | NotMeasured]:
    """Run assignments at the same time, and leave no process behind.

    Clients start only when every server listens. A client that started earlier would have the links to itself for a
    moment, and its number would not be one of a shared link.
    """
    exchanges = [_Exchange(fleet, assignment) for assignment in assignments]
    try:
        failures = await asyncio.gather(*(exchange.start_server() for exchange in exchanges))
        return await asyncio.gather(
            *(exchange.run_client(failure) for exchange, failure in zip(exchanges, failures, strict=True)),
        )
    finally:
        # Also reached when this task is cancelled (Ctrl-C): the servers run in separate tasks, and would otherwise go
        # on listening on the nodes.
        await asyncio.gather(*(exchange.stop_server() for exchange in exchanges))


class _Exchange:
    """One server, and the client that connects to it."""

    def __init__(self, fleet: Fleet, assignment: Assignment) -> None:
        self._fleet = fleet
        self._assignment = assignment
        self._server: asyncio.Task[Output] | None = None

    async def start_server(self) -> NotMeasured | None:
        """Start the server and wait until it listens; return why it does not. Do nothing if the tool needs none."""
        assignment, build = self._assignment, self._assignment.tool.server
        if build is None:
            return None
        node = assignment.call.server.node
        script = wrap(build(assignment.call), assignment.call.server)
        command = Command(
            key=f"{assignment.key}.server",
            script=script,
            timeout=assignment.seconds + READY_SECONDS + SLACK_SECONDS,
            tool=assignment.program,
            endless=True,
        )
        self._server = asyncio.create_task(self._fleet.ask(node, command))
        poll = Command(
            key=f"{assignment.key}.listening",
            script=_listening_script(assignment),
            timeout=READY_SECONDS + SLACK_SECONDS,
        )
        listening = asyncio.create_task(self._fleet.ask(node, poll))
        try:
            # Wait for both: a server that exits at once (not installed, port in use) will never listen, and its exit
            # explains more than the poll's timeout would.
            await asyncio.wait({self._server, listening}, return_when=asyncio.FIRST_COMPLETED)
            if failure := self._server_failure():
                return failure
            return None if (await listening).exit == 0 else self._not_listening()
        except DeviceError as error:
            return _explain_loss(node, error)
        finally:
            await _cancel(listening)

    async def run_client(self, failure: NotMeasured | None) -> Measured | NotMeasured:
        """Run the client and return its result; `failure` is why its server did not start."""
        if failure:
            return failure
        assignment = self._assignment
        client = asyncio.create_task(self._fleet.ask(assignment.call.client.node, _client_command(assignment)))
        try:
            await asyncio.wait({client, *([self._server] if self._server else [])}, return_when=asyncio.FIRST_COMPLETED)
            if not client.done():
                # The server ended first. Many exit normally a moment before their client does; after a crash the
                # client would wait for a peer that is gone, so it gets only a moment to print its own error.
                await asyncio.wait({client}, timeout=GOODBYE_SECONDS if self._server_failure() else assignment.seconds)
            if not client.done():
                reason = f"{assignment.program} did not finish"
                return self._server_failure() or NotMeasured(reason=reason, node=assignment.call.client.node)
            outcome = await _read_with_timeout(assignment, client.result())
        except DeviceError as error:
            return _explain_loss(assignment.call.client.node, error)
        finally:
            await _cancel(client)
        if isinstance(outcome, NotMeasured):
            return self._root_cause(outcome)
        return Measured(reading=outcome[0], client=outcome[1], server=await self._server_output())

    async def stop_server(self) -> None:
        """End the server, in any state."""
        if self._server:
            await _cancel(self._server)

    def _root_cause(self, failure: NotMeasured) -> NotMeasured:
        """Return the server's failure if it explains the client's: node lost, program missing, or worth a retry."""
        cause = self._server_failure()
        return cause if cause and (cause.lost or cause.missing or cause.retry) else failure

    def _server_failure(self) -> NotMeasured | None:
        """Return why the server ended; None while it runs, and after a normal exit."""
        if self._server is None or not self._server.done() or self._server.cancelled():
            return None
        node = self._assignment.call.server.node
        try:
            output = self._server.result()
        except DeviceError as error:
            return _explain_loss(node, error)
        normal = output.exit == 0 and self._assignment.tool.ends_itself
        return None if normal else _explain_failure(self._assignment, self._assignment.call.server, output)

    def _not_listening(self) -> NotMeasured:
        call, tool = self._assignment.call, self._assignment.tool
        return NotMeasured(
            reason=f"{self._assignment.program} on {call.server.node} did not listen on port {call.port} "
            f"within {READY_SECONDS:g} s",
            remedy=f"run it there by hand: {tool.server(call) if tool.server else ''}",
            node=call.server.node,
        )

    async def _server_output(self) -> WrappedOutput | None:
        """Return what the server printed, if it ends by itself."""
        if self._server is None or not self._assignment.tool.ends_itself:
            return None
        # Client and server are on different nodes: the server's output may arrive after the client's.
        await asyncio.wait({self._server}, timeout=GOODBYE_SECONDS)
        if not self._server.done() or self._server_failure():
            return None
        return unwrap(self._server.result().text)


async def _read_with_timeout(assignment: Assignment, output: Output) -> tuple[ToolResult, WrappedOutput] | NotMeasured:
    """Parse a client's output in a separate process, for no longer than the measurement itself may take.

    A parser that hangs on unforeseen output would otherwise block the event loop, and with it every other node.
    """
    async with Worker({assignment.tool.name: partial(read_output, assignment)}) as worker:
        (result,) = await worker.run([Call(name=assignment.tool.name, argument=output, seconds=assignment.seconds)])
    if isinstance(result, Failed):
        reason = f"railbed's parser for {assignment.program} {result.reason}"
        return NotMeasured(reason=reason, remedy="please report it", node=assignment.call.client.node)
    outcome: tuple[ToolResult, WrappedOutput] | NotMeasured = result.value
    return outcome


def read_output(assignment: Assignment, output: Output) -> tuple[ToolResult, WrappedOutput] | NotMeasured:
    """Return the values that a client printed, or why there are none."""
    client = assignment.call.client
    if output.exit is None or output.exit == NOT_FOUND:
        return _explain_failure(assignment, client, output)
    if excess := output.excess():
        return _explain_failure(assignment, client, output, f"it {excess}")
    wrapped = unwrap(output.text)
    try:
        reading = assignment.tool.parse(wrapped.output)
    except ParseError as error:
        return _explain_failure(assignment, client, output, error.message)
    return (reading, wrapped) if output.exit == 0 else _explain_failure(assignment, client, output)


def _client_command(assignment: Assignment) -> Command:
    tool, call = assignment.tool, assignment.call
    version = tool.version(call.test) if tool.version else ""
    script = wrap(tool.client(call), call.client, version=version)
    return Command(key=f"{assignment.key}.client", script=script, timeout=assignment.seconds, tool=assignment.program)


def _listening_script(assignment: Assignment) -> str:
    """Return a script that exits once the port is open, according to the kernel's socket table.

    Connecting to the port would be simpler, but most servers accept a single client and would take us for it.
    """
    kind = assignment.tool.listens(assignment.call.test)
    line = f":{assignment.call.port:04X} [0-9A-F]+:[0-9A-F]+ {LISTENING[kind]} "
    is_open = f"grep -qsE '{line}' /proc/net/{kind} /proc/net/{kind}6"
    end = f"end=$(($(date +%s) + {READY_SECONDS:.0f}))"
    return f"{end}; until {is_open}; do [ $(date +%s) -lt $end ] || exit 1; sleep 0.05; done"


def _explain_failure(assignment: Assignment, end: End, output: Output, problem: str = "") -> NotMeasured:
    """Return why a program produced no number; `problem` is what is wrong with its output, if anything."""
    if output.exit == NOT_FOUND:
        return NotMeasured(
            reason=f"{assignment.program} is not installed on {end.node}",
            remedy=f"install the package {assignment.tool.package} there",
            node=end.node,
            missing=True,
        )
    stderr = output.stderr.decode("utf-8", "replace").strip().splitlines()
    printed = "\n".join([*stderr, unwrap(output.text).output])
    tries, diagnosis, remedy = _transient(assignment, f"{printed}\n{problem}".lower())
    if output.ran_late and assignment.has_many_samples:
        tries = max(tries, 2)
    first_line = next((line.strip() for line in stderr if line.strip()), "")
    reason = output.failure or diagnosis or first_line or problem or f"exit {output.exit}"
    return NotMeasured(
        reason=f"{assignment.program} on {end.node}: {reason}",
        node=end.node,
        tries=tries,
        remedy=remedy,
        evidence=printed[-2000:],
    )


def _transient(assignment: Assignment, printed: str) -> tuple[int, str, str]:
    """Return how many attempts a failure is worth, a diagnosis if the tool's own message has none, and a remedy."""
    if any(phrase in printed for phrase in IN_USE):
        remedy = f"port {assignment.call.port} is in use there: set another `first_port` in a suite file"
        return TRIES, "", remedy
    if CLOCK in printed:
        diagnosis = "it could not measure the processor's clock"
        return CLOCK_TRIES, diagnosis, "that machine is too busy: measure again when it is idle"
    if NOTHING in printed:
        return TRIES, "", "set more `seconds` in a suite file, or measure when the machine is less busy"
    return 1, "", ""


def _explain_loss(node: str, error: DeviceError) -> NotMeasured:
    return NotMeasured(reason=f"{node}: {error.message}", remedy=error.hint, node=node, lost=True)


async def _cancel(task: asyncio.Task[Output]) -> None:
    """Cancel a task and wait until it has ended the process on its node."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
