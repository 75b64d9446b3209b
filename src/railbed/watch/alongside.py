"""A verb, and something endless alongside it, as one stream of records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from railbed.model import events
from railbed.model.record import Measurement, Record

Turn = tuple[Record, asyncio.Event]
"""A record, and whether it has been stored and shown."""


async def alongside(
    verb: AsyncGenerator[Record, None], other: AsyncGenerator[Record, None], *, what: str = "sampling"
) -> AsyncGenerator[Record, None]:
    """Yield the records of both until the verb ends, normally or not; a fault in the other does not end the verb.

    `what` names the other in a message about such a fault.

    Each runs in a task of its own, and continues only when its record has been stored and shown: people see what begins
    before it takes long. Measurements are not waited for: dozens come at every step, and each wait takes a turn of the
    event loop.
    """
    turns: asyncio.Queue[Turn | None] = asyncio.Queue()
    tasks = [asyncio.create_task(_relay(records, turns)) for records in (verb, other)]
    tasks[0].add_done_callback(lambda _: turns.put_nowait(None))
    tasks[1].add_done_callback(lambda task: _report_fault(task, turns, what))
    try:
        while turn := await turns.get():
            record, done = turn
            yield record
            done.set()
        tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(records: AsyncGenerator[Record, None], turns: asyncio.Queue[Turn | None]) -> None:
    async with aclosing(records):
        async for record in records:
            done = asyncio.Event()
            turns.put_nowait((record, done))
            if not isinstance(record, Measurement):
                await done.wait()


def _report_fault(task: asyncio.Task[None], turns: asyncio.Queue[Turn | None], what: str) -> None:
    if not task.cancelled() and (error := task.exception()):
        message = f"{what} ended because of a fault in railbed: {type(error).__name__}: {error}"
        turns.put_nowait((events.Notice(message=message), asyncio.Event()))
