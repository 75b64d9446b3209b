"""Runs commands on many devices at once, over one connection each."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Container, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

from railbed.errors import DeviceError, ProgramRefused, TimedOut
from railbed.fleet.limit import AdaptiveLimit, OverloadMonitor, Slot
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.reading import DeviceFailure, Output
from railbed.transport.base import Command, Connector, Program, Target, Transport
from railbed.transport.batch import out_of_time

AT_ONCE = 32
LOGIN_SECONDS = 5.0
"""A device whose login is quicker than this is not just busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAnswer:
    """The outputs of one device; with a failure, those that arrived before it."""

    device: str
    outputs: tuple[Output, ...]
    failure: DeviceFailure | None
    seconds: float


class Fleet:
    """The devices of a cluster. Connections are opened when first needed and kept until the fleet is closed."""

    def __init__(
        self, targets: Sequence[Target], connect: Connector, *, timeout: float = DEVICE_SECONDS, at_once: int = AT_ONCE
    ) -> None:
        self.targets = tuple(targets)
        self._connect = connect
        self.timeout = timeout
        """Seconds that a device has to answer."""
        self._limit = AdaptiveLimit(at_once)
        self._overload = OverloadMonitor()
        self._is_guest = False
        """Whether the connections belong to others, who run programs over them."""
        self._open: dict[str, tuple[Transport, AsyncExitStack]] = {}
        self._opening = {target.name: asyncio.Lock() for target in self.targets}

    async def __aenter__(self) -> Self:
        self._overload.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._overload.stop()
        async with asyncio.TaskGroup() as group:
            for device in list(self._open):
                group.create_task(self.hang_up(device))

    def only(self, devices: Container[str]) -> Fleet:
        """Return some of the devices as a fleet that shares its connections with this one, which closes them."""
        part = copy(self)
        part.targets = tuple(target for target in self.targets if target.name in devices)
        return part

    def guest(self, devices: Container[str], *, timeout: float) -> Fleet:
        """Return some of the devices as a fleet that leaves connections alone, even those of a device that is late.

        Programs of others run over them: the agents of a training end their ranks when a connection ends.
        """
        part = self.only(devices)
        part.timeout, part._is_guest = timeout, True  # noqa: SLF001  (a copy of this one)
        return part

    async def run(
        self, commands: Mapping[str, Sequence[Command]], *, at_once: int = AT_ONCE
    ) -> AsyncGenerator[DeviceAnswer, None]:
        """Run each device's commands and yield its answer when it is complete, quickest device first.

        A device with no command is only connected to.
        """
        targets = [target for target in self.targets if target.name in commands]
        semaphore = asyncio.Semaphore(at_once)
        tasks = [asyncio.create_task(self._run_on(target, commands[target.name], semaphore)) for target in targets]
        try:
            for answer in asyncio.as_completed(tasks):
                yield await answer
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def patience(self) -> float:
        """How many times the usual time a device gets."""
        return max(1.0, self.timeout / DEVICE_SECONDS)

    async def ask(self, device: str, command: Command) -> Output:
        """Run one command on a device, concurrently with others there, limited by its own time-out.

        Whoever gives a slow device more time than usual gives the command more, too. When cancelled, or when this
        process or the connection is gone, it is ended on the device with all it started.
        """
        try:
            transport = await self._limited_transport(device)
            patient = replace(command, timeout=command.timeout * self.patience)
            async with aclosing(transport.run([patient])) as outputs:
                return await anext(outputs)
        except DeviceError:
            await self.hang_up(device)
            raise

    async def log_in_again(self, device: str) -> str:
        """Log in once more, beside the open connection; return why that fails, or an empty string."""
        target = self._target(device)
        command = Command(key="login", script="show clock" if target.kind == "switch" else "true")
        try:
            async with (
                self._limit.slot(),
                self._connect(target) as transport,
                aclosing(transport.run([command])) as outputs,
            ):
                output = await anext(outputs)
        except DeviceError as error:
            return error.message
        return "" if output.exit == 0 else output.trouble

    @asynccontextmanager
    async def open(self, device: str, command: str) -> AsyncIterator[Program]:
        """Start a program on a device, over its one connection; a connection that broke before is opened again.

        A connection that only refuses one more program stays: others use it.
        """
        transport: Transport | None = None
        try:
            transport = await self._limited_transport(device)
            async with transport.open(command) as program:
                yield program
        except ProgramRefused:
            raise
        except DeviceError:
            await self._hang_up_on(device, transport)
            raise

    async def hang_up_if_broken(self, device: str) -> None:
        """Close a connection that does not answer, if a second login proves that the device is there.

        A device that is slow, or does not answer at all, keeps its connection: it may well continue.
        """
        before = self._open.get(device, (None, None))[0]
        if before is None or await _answers(before):
            return
        start = time.monotonic()
        works = not await self.log_in_again(device)
        if works and time.monotonic() - start < LOGIN_SECONDS:
            await self._hang_up_on(device, before)

    async def _run_on(self, target: Target, commands: Sequence[Command], semaphore: asyncio.Semaphore) -> DeviceAnswer:
        outputs: list[Output] = []
        failure: DeviceFailure | None = None
        async with semaphore, self._limit.slot() as slot:
            start = time.monotonic()
            try:
                async with asyncio.timeout(self.timeout):
                    await self._collect(target, self._in_time(commands), outputs, slot)
            except TimeoutError as error:
                no_answer = self._no_answer(target.name, outputs, error)
                failure = self._failure(target.name, outputs, commands, no_answer, start)
            except DeviceError as error:
                failure = self._failure(target.name, outputs, commands, error, start)
            if failure and not self._is_guest:
                await self.hang_up(target.name)
        seconds = time.monotonic() - start
        return DeviceAnswer(device=target.name, outputs=tuple(outputs), failure=failure, seconds=seconds)

    async def _collect(self, target: Target, commands: Sequence[Command], outputs: list[Output], slot: Slot) -> None:
        transport = await self._transport(target)
        async with aclosing(transport.run(commands)) as answers:
            async for output in answers:
                slot.note_login()
                outputs.append(output)

    def _in_time(self, commands: Sequence[Command]) -> list[Command]:
        """Limit each command to half of the device's time: one that hangs must not cost the output of the others.

        Whoever gives a slow device more time than usual gives each of its commands more.
        """
        most = self.timeout / 2
        return [replace(command, timeout=min(command.timeout * self.patience, most)) for command in commands]

    def _target(self, device: str) -> Target:
        return next(target for target in self.targets if target.name == device)

    async def _limited_transport(self, device: str) -> Transport:
        """Return the connection to a device; if there is none, wait for a slot and log in."""
        if device in self._open:
            return self._open[device][0]
        async with self._limit.slot() as slot:
            transport = await self._transport(self._target(device))
            slot.note_login()
            return transport

    async def _transport(self, target: Target) -> Transport:
        # The lock makes two callers that need a device at the same time share its connection.
        async with self._opening[target.name]:
            if target.name not in self._open:
                async with AsyncExitStack() as stack:
                    transport = await stack.enter_async_context(self._connect(target))
                    self._open[target.name] = (transport, stack.pop_all())
            return self._open[target.name][0]

    def _no_answer(self, device: str, outputs: Sequence[Output], error: TimeoutError) -> TimedOut:
        if device in self._open and not outputs:
            return out_of_time(error, self.timeout)
        return TimedOut(f"no answer within {self.timeout:g} s")

    def _failure(
        self, device: str, outputs: Sequence[Output], commands: Sequence[Command], error: DeviceError, start: float
    ) -> DeviceFailure:
        connected, reason = device in self._open, error.message
        timed_out = isinstance(error, TimedOut)
        if connected and outputs:
            last = commands[len(outputs)].key if len(outputs) < len(commands) else "the end"
            reason = f"stopped answering after {len(outputs)} of {len(commands)} commands, at {last}: {reason}"
        excuse = self._overload.excuse(start) if timed_out else ""
        return DeviceFailure(reason=reason, remedy=error.hint, connected=connected, timed_out=timed_out, excuse=excuse)

    async def _hang_up_on(self, device: str, transport: Transport | None) -> None:
        """Close this connection, but not another that somebody has opened since."""
        if transport is not None and self._open.get(device, (None, None))[0] is transport:
            await self.hang_up(device)

    async def hang_up(self, device: str) -> None:
        """Close the connection to a device; the next use makes a new one."""
        _, stack = self._open.pop(device, (None, None))
        if stack:
            # A connection that cannot be closed properly is gone anyway.
            with contextlib.suppress(DeviceError, OSError, TimeoutError):
                await stack.aclose()


async def _answers(transport: Transport) -> bool:
    """Whether a command over an open connection ends in time."""
    try:
        async with (
            asyncio.timeout(LOGIN_SECONDS),
            aclosing(transport.run([Command(key="alive", script="true")])) as outputs,
        ):
            await anext(outputs)
    except (DeviceError, TimeoutError):
        return False
    return True
