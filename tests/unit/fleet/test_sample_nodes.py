"""Sampling a node whose reader is played by the test: what it sends, what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from railbed.errors import LoginRefused, UsageError
from railbed.fleet.sample import nodes, sample
from railbed.model import events
from railbed.model.cluster import Cluster, Node
from railbed.model.meters import Sample
from railbed.model.record import Event

LAYOUT = "l " + json.dumps([["host", "", ["cpu_busy_us"]]])
CLUSTER = Cluster(name="x", nodes={"a": Node(host="10.0.0.1")})


class FakeReader:
    """A program on a node: answers heartbeats on a clock of its own, and sends what the test wants."""

    def __init__(self, *lines: str, first: bytes = b"", silent: bool = False, ends: bool = False) -> None:
        self.lines = asyncio.Queue[bytes]()
        if first:
            self.lines.put_nowait(first)
        self.silent = silent
        self.monotonic, self.wall = 500.0, 1_790_000_000.0
        self.began = asyncio.Event()
        for line in lines:
            self.send(line)
        if ends:
            self.lines.put_nowait(b"")

    def send(self, line: str) -> None:
        self.lines.put_nowait(f"{line}\n".encode())

    def row(self, value: int) -> None:
        self.send(f"r {self.monotonic * 1e6:.0f} {value}")

    async def write(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line.startswith(b"p ") and not self.silent:
                self.send(f"q {line[2:].decode()} {self.monotonic * 1e6:.0f} {self.wall * 1e6:.0f}")
            elif line.startswith(b"g "):
                self.began.set()

    async def read(self, stream: int) -> bytes:
        return await self.lines.get() if stream == 1 else b"sh: python3: not found\n"


class FakeFleet:
    """A fleet with one node; each attempt gets the next reader, or an error."""

    def __init__(self, *attempts: FakeReader | Exception) -> None:
        self._attempts = list(attempts)
        self.doubted = 0

    @asynccontextmanager
    async def open(self, device: str, command: str) -> AsyncIterator[FakeReader]:
        assert (device, "python3 -I -S" in command) == ("a", True)
        attempt = self._attempts.pop(0) if self._attempts else LoginRefused("no more")
        if isinstance(attempt, Exception):
            raise attempt
        yield attempt

    async def hang_up_if_broken(self, device: str) -> None:
        assert device == "a"
        self.doubted += 1


async def sampled(fleet: FakeFleet, *kinds: type[Event], act: Callable[[Event], None] = lambda _: None) -> Any:
    """Sample until events of these kinds came, in this order; return them and the samples."""
    taken: list[Sample] = []
    expected, emitted = list(kinds), []
    real: Any = fleet
    stream = sample(CLUSTER, real, taken.append)
    async with asyncio.timeout(60):
        while expected:
            event = await anext(stream)
            emitted.append(event)
            assert isinstance(event, expected.pop(0)), event
            act(event)
    await stream.aclose()
    return emitted, taken


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(nodes, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(nodes, "BEAT_SECONDS", 0.05)


async def started(reader: FakeReader, value: int = 1) -> None:
    await reader.began.wait()
    reader.row(value)


async def test_a_reader_that_ends_is_started_again_and_counts_on() -> None:
    first, second = FakeReader("Welcome!", "h 1 7", LAYOUT), FakeReader("h 1 8", LAYOUT)
    rows = [asyncio.create_task(started(first, 5)), asyncio.create_task(started(second, 9))]

    def end_first(event: Event) -> None:
        if isinstance(event, events.Sampling):
            first.lines.put_nowait(b"")

    kinds = (events.Sampling, events.SamplingGap, events.SamplingResumed, events.Sampling)
    (sampling, gap, _, _), taken = await sampled(FakeFleet(first, second), *kinds, act=end_first)
    await asyncio.gather(*rows)
    assert (sampling.series, gap.why, gap.last) == (1, "its reader ended", taken[0].time)
    assert [list(row.values) for row in taken] == [[5], [9]]
    assert taken[0].layout is taken[1].layout


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        (lambda: FakeReader(ends=True), "its reader did not start: sh: python3: not found"),
        (lambda: FakeReader("h 1 7", "e OSError: no /sys", ends=True), "its reader failed: OSError: no /sys"),
        (lambda: FakeReader("h 1 7", "l {}"), "expected a layout: '{}'"),
        (lambda: FakeReader("h 1 7", LAYOUT, "r 5 1 2"), "its reader sent a row that does not fit its layout"),
        (lambda: FakeReader("h 1 7", LAYOUT, "so long"), "its reader sent something else: not a line of the reader"),
        (lambda: FakeReader("h 1 7", LAYOUT, silent=True), "it has not answered for 0.5 s"),
        (lambda: FakeReader(first=b"x" * 300_000), "it sent a line of more than 256 KiB"),
        (lambda: FakeReader(*["x"] * 1000), "its login printed much more than a banner"),
        (lambda: LoginRefused("no such account"), "no such account"),
    ],
)
async def test_why_there_are_no_samples(reader: Callable[[], FakeReader | Exception], why: str) -> None:
    ((gap,), taken) = await sampled(FakeFleet(reader()), events.SamplingGap)
    assert gap.why.startswith(why)
    assert (gap.last, taken) == (None, [])


async def test_a_reader_that_does_not_start_raises_doubt_about_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "START_SECONDS", 0.1)
    fleet = FakeFleet(FakeReader("h 1 7"))
    ((gap,), _) = await sampled(fleet, events.SamplingGap)
    assert (gap.why, fleet.doubted) == ("its reader did not start within 0.1 s", 1)


async def test_a_clock_of_a_node_that_is_set_does_not_move_its_samples() -> None:
    reader = FakeReader("h 1 7", LAYOUT)
    rows = asyncio.create_task(started(reader))

    def set_clock(event: Event) -> None:
        reader.wall += 3600.0 if isinstance(event, events.Sampling) else 0.0
        if isinstance(event, events.ClockJumped):
            reader.row(2)
            reader.row(3)
            reader.lines.put_nowait(b"")

    kinds = (events.Sampling, events.ClockJumped, events.SamplingGap)
    (_, jump, _), taken = await sampled(FakeFleet(reader), *kinds, act=set_clock)
    await rows
    assert jump.seconds == pytest.approx(3600.0)
    assert max(row.time for row in taken) - taken[0].time < 60.0


async def test_a_row_of_60_kb_that_arrives_in_parts_is_a_sample() -> None:
    """A node with many cards, over a connection that delivers 4 KiB at a time."""
    names = [["net", f"card{number}", ["rx_bytes", "tx_bytes"]] for number in range(1600)]
    reader = FakeReader("h 1 7")
    values = [10**17 + number for number in range(2 * len(names))]

    def send_in_parts(line: str) -> None:
        data = f"{line}\n".encode()
        for start in range(0, len(data), 4096):
            reader.lines.put_nowait(data[start : start + 4096])
        assert len(data) > 60_000 or line.startswith("l ")

    send_in_parts("l " + json.dumps(names))

    async def send_row() -> None:
        await reader.began.wait()
        send_in_parts(f"r {reader.monotonic * 1e6:.0f} {' '.join(map(str, values))}")

    rows = asyncio.create_task(send_row())
    (sampling,), (taken,) = await sampled(FakeFleet(reader), events.Sampling)
    await rows
    assert sampling.series == len(values)
    assert list(taken.values) == values


async def test_a_node_without_any_known_counter_is_a_gap() -> None:
    reader = FakeReader("h 1 7", "l " + json.dumps([["host", "", ["something_new"]]]))
    rows = asyncio.create_task(started(reader))
    ((gap,), taken) = await sampled(FakeFleet(reader), events.SamplingGap)
    await rows
    assert (gap.why, taken) == ("it has no counters that railbed knows", [])


async def test_samples_that_cannot_be_stored_are_a_gap() -> None:
    reader = FakeReader("h 1 7", LAYOUT)
    rows = asyncio.create_task(started(reader))

    def refuse(_: Sample) -> None:
        raise UsageError("samples cannot be stored: the disk is full")

    fleet: Any = FakeFleet(reader)
    stream = sample(CLUSTER, fleet, refuse)
    event = await anext(stream)
    await rows
    await stream.aclose()
    assert isinstance(event, events.SamplingGap)
    assert event.why == "samples cannot be stored: the disk is full"
