from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from railbed.errors import UserError
from railbed.model import events
from railbed.model.record import Measurement, Record
from railbed.watch.run import alongside


class Source:
    """An async generator of notices that notes how it ended."""

    def __init__(self, *messages: str | Exception, endless: bool = False) -> None:
        self._messages = messages
        self._endless = endless
        self.sent: list[str] = []
        self.closed = False

    async def records(self) -> AsyncGenerator[Record, None]:
        try:
            for message in self._messages:
                await asyncio.sleep(0)
                if isinstance(message, Exception):
                    raise message
                self.sent.append(message)
                yield events.Notice(message=message)
            if self._endless:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def messages(verb: Source, other: Source) -> list[str]:
    async with aclosing(alongside(verb.records(), other.records())) as records:
        return [record.message async for record in records if isinstance(record, events.Notice)]


async def test_both_are_yielded_until_the_verb_ends() -> None:
    verb, other = Source("a", "b", "c"), Source("1", "2", endless=True)
    received = await messages(verb, other)
    assert [message for message in received if message in "abc"] == ["a", "b", "c"]
    assert set("12") & set(received)
    assert verb.closed
    assert other.closed


async def test_the_verb_continues_only_when_its_record_was_taken() -> None:
    verb, other = Source("a", "b", "c"), Source(endless=True)
    async with aclosing(alongside(verb.records(), other.records())) as records:
        async for record in records:
            assert isinstance(record, events.Notice)
            await asyncio.sleep(0.01)
            assert verb.sent[-1] == record.message


async def test_an_error_of_the_verb_is_raised() -> None:
    verb, other = Source("a", UserError("no")), Source(endless=True)
    with pytest.raises(UserError, match="no"):
        await messages(verb, other)
    assert other.closed


async def test_a_fault_of_the_other_does_not_end_the_verb() -> None:
    received = await messages(Source(*"abcdefgh"), Source(ValueError("broken")))
    assert "h" in received
    assert "sampling ended because of a fault in railbed: ValueError: broken" in received


async def test_both_are_closed_when_nobody_reads_on() -> None:
    verb, other = Source("a", endless=True), Source("1", endless=True)
    async with aclosing(alongside(verb.records(), other.records())) as records:
        await anext(records)
    assert verb.closed
    assert other.closed


async def test_measurements_are_not_waited_for_and_keep_their_place() -> None:
    received: list[Record] = []

    async def verb() -> AsyncGenerator[Record, None]:
        yield events.Notice(message="a step")
        for value in range(3):
            yield Measurement(name="loss", value=value, unit="nat")
        assert len(received) == 1
        raise UserError("after the step")

    async def receive() -> None:
        async with aclosing(alongside(verb(), Source(endless=True).records())) as records:
            async for record in records:
                received.append(record)  # noqa: PERF401  (the verb looks at it)

    with pytest.raises(UserError, match="after the step"):
        await receive()
    assert [record.value for record in received if isinstance(record, Measurement)] == [0, 1, 2]
