"""Programs on a device: when its connection is closed, and when it is not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from railbed.errors import DeviceError, ProgramRefused, Unreachable
from railbed.fleet import Fleet
from railbed.model.reading import Output
from railbed.transport.base import Command, Program, Target


class Device:
    """A device that counts its connections."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.error: DeviceError | None = None
        self.login_error: DeviceError | None = None
        self.dead: set[int] = set()
        """Connections that do not answer, by their number."""

    @asynccontextmanager
    async def connect(self, _: Target) -> AsyncIterator[Any]:
        if self.login_error:
            raise self.login_error
        self.opened += 1
        try:
            yield Connection(self, self.opened)
        finally:
            self.closed += 1


class Connection:
    """One of its connections."""

    def __init__(self, device: Device, number: int) -> None:
        self._device = device
        self._number = number

    @asynccontextmanager
    async def open(self, _: str) -> AsyncIterator[Program]:
        if self._device.error:
            raise self._device.error
        program: Any = object()
        yield program

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        if self._number in self._device.dead:
            raise Unreachable("no answer")
        for command in commands:
            yield Output(
                device="a", key=command.key, command=command.script, stdout=b"", exit=0, sent=0.0, received=0.0
            )


@pytest.fixture
def device() -> Device:
    return Device()


def fleet_of(device: Device) -> Fleet:
    return Fleet([Target(name="a", host="a")], device.connect)


async def start(fleet: Fleet) -> None:
    async with fleet.open("a", "true"):
        pass


async def test_a_refused_program_does_not_cost_the_connection_that_others_use(device: Device) -> None:
    async with fleet_of(device) as fleet:
        await start(fleet)
        for error, closed in ((ProgramRefused("no more sessions"), 0), (Unreachable("broken"), 1)):
            device.error = error
            with pytest.raises(type(error)):
                await start(fleet)
            assert device.closed == closed


async def test_a_part_of_a_fleet_shares_its_connections(device: Device) -> None:
    async with Fleet([Target(name=name, host=name) for name in "ab"], device.connect) as fleet:
        await start(fleet)
        part = fleet.only({"a"})
        await start(part)
        assert ([target.name for target in part.targets], len(fleet.targets)) == (["a"], 2)
        assert device.opened == 1
    assert device.closed == 1


async def test_only_the_connection_that_broke_is_closed(device: Device) -> None:
    async def use(fleet: Fleet) -> None:
        async with fleet.open("a", "true"):
            await fleet.hang_up("a")
            await start(fleet)  # somebody else has a new connection
            raise Unreachable("the old one broke")

    async with fleet_of(device) as fleet:
        with pytest.raises(Unreachable):
            await use(fleet)
        assert (device.opened, device.closed) == (2, 1)


async def test_a_connection_that_answers_is_not_given_up(device: Device) -> None:
    async with fleet_of(device) as fleet:
        await start(fleet)
        await fleet.hang_up_if_broken("a")
        assert (device.opened, device.closed) == (1, 0)


async def test_a_dead_connection_is_given_up_only_if_a_second_login_works(device: Device) -> None:
    async with fleet_of(device) as fleet:
        await start(fleet)
        device.dead.add(1)
        device.login_error = Unreachable("no answer")
        await fleet.hang_up_if_broken("a")
        assert device.closed == 0
        device.login_error = None
        await fleet.hang_up_if_broken("a")
        assert (device.opened, device.closed) == (2, 2)
