"""New points as server-sent events: each client gets what it has not got, at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from pydantic_core import to_json

from railbed.present.charts import Chart
from railbed.web.page.parameters import Filter
from railbed.web.page.source import PageData

POLL_SECONDS = 1.0
HEARTBEAT_SECONDS = 10.0
"""Something is sent this often, so that a client that vanished is noticed."""
SELDOM = 5
"""Series that were zero so far, where that is normal, are read in one of this many turns: they are the most."""


async def news(
    source: PageData, charts: list[Chart], chosen: Filter, since: float, ending: asyncio.Event
) -> AsyncIterator[bytes]:
    """Yield events `points` (also with marks and series that are new), and `ended` when the run is over."""
    yield b"retry: 2000\n\n"
    version, silent = -1, 0.0
    state = _Position(since)
    while not ending.is_set():
        current, live = await source.refresh(), source.live
        if current != version or not live:
            version = current
            if changes := await state.advance(source, charts, chosen):
                yield event("points", changes)
                silent = 0.0
        if not live:
            yield event("ended", {})
            return
        silent += POLL_SECONDS
        if silent >= HEARTBEAT_SECONDS:
            yield b": still here\n\n"
            silent = 0.0
        with suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), POLL_SECONDS)


class _Position:
    """How far a client has got."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._times: dict[int, float] = {}
        self._zero: set[int] = set()
        self._turn = 0
        self._marks = -1
        self._series = -1

    async def advance(self, source: PageData, charts: list[Chart], chosen: Filter) -> dict[str, Any]:
        """Return what is new; empty if nothing is."""
        self._turn += 1
        numbers = await source.numbers(charts, chosen)
        due = [number for number in numbers if number not in self._zero or (number + self._turn) % SELDOM == 0]
        samples = await source.since({number: self._times.get(number, self._since) for number in due})
        for number, times, values in samples:
            self._times[number] = times[-1]
            if numbers[number] and not any(values):
                self._zero.add(number)
            else:
                self._zero.discard(number)
        changes: dict[str, Any] = {"points": samples} if samples else {}
        marks = await source.marks()
        # Also at the beginning: some may have appeared since the client read the run.
        if self._marks != len(marks):
            changes["marks"] = marks
        if self._series != source.count:
            changes["series"] = source.count
        self._marks, self._series = len(marks), source.count
        return {"end": source.span()[1], **changes} if changes else {}


def event(name: str, data: object) -> bytes:
    """Return one server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(data, inf_nan_mode="null"))
