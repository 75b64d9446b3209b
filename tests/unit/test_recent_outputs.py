"""Outputs of a moment ago answer the same commands, once; all others are run."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from railbed.fleet import Fleet
from railbed.model.output import Output
from railbed.transport.base import Command, Connector, Program, Target, Transport
from railbed.transport.recent import RECENT_SECONDS, RecentOutputs
from railbed.transport.record import Recorder, recording_connector
from railbed.transport.replay import replay_connector

TARGET = Target(name="node1", host="10.0.0.1")
FIRST, SECOND, THIRD = (Command(key=key, script=f"show {key}") for key in ("first", "second", "third"))


class Device:
    """A device whose outputs name the command and how often it has run anything."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def connect(self, target: Target) -> AbstractAsyncContextManager[Transport]:
        @asynccontextmanager
        async def connected() -> AsyncIterator[Transport]:
            assert target is TARGET
            yield self

        return connected()

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        raise AssertionError(command)

    async def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        for command in commands:
            self.ran.append(command.script)
            yield output_of(command, f"{command.script}, {len(self.ran)}")


def output_of(command: Command, text: str, *, received: float | None = None) -> Output:
    received = time.time() if received is None else received
    return Output(
        device=TARGET.name,
        key=command.key,
        command=command.script,
        stdout=text.encode(),
        exit=0,
        sent=received,
        received=received,
    )


async def printed(connect: Connector, *commands: Command) -> list[str]:
    async with Fleet([TARGET], connect) as fleet:
        return [output.text async for answer in fleet.run({TARGET.name: commands}) for output in answer.outputs]


async def test_a_command_that_has_just_run_is_answered_once_and_others_run_in_their_order() -> None:
    device, recent = Device(), RecentOutputs()
    await printed(recent.collecting(device.connect), FIRST, THIRD)
    answering = recent.answering(device.connect)
    assert await printed(answering, FIRST, SECOND, THIRD) == ["show first, 1", "show second, 3", "show third, 2"]
    assert await printed(answering, FIRST) == ["show first, 4"]


async def test_another_script_under_the_same_key_is_run() -> None:
    device, recent = Device(), RecentOutputs()
    recent.put(output_of(FIRST, "before"))
    assert await printed(recent.answering(device.connect), replace(FIRST, script="show more")) == ["show more, 1"]


async def test_what_is_old_or_incomplete_is_not_used() -> None:
    device, recent = Device(), RecentOutputs()
    recent.put(output_of(FIRST, "old", received=time.time() - RECENT_SECONDS))
    recent.put(replace(output_of(SECOND, "unfinished"), exit=None))
    recent.put(replace(output_of(THIRD, "cut"), truncated=True))
    assert await printed(recent.answering(device.connect), FIRST, SECOND, THIRD) == [
        "show first, 1",
        "show second, 2",
        "show third, 3",
    ]


async def test_a_recording_of_the_run_has_it(tmp_path: Path) -> None:
    device, recent = Device(), RecentOutputs()
    recent.put(output_of(FIRST, "before"))
    with Recorder(tmp_path) as recorder:
        await printed(recording_connector(recent.answering(device.connect), recorder), FIRST, SECOND)
    assert await printed(replay_connector(tmp_path), FIRST, SECOND) == ["before", "show second, 1"]
