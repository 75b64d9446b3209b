"""How many devices are worked on at once, and whether this machine is too late to tell."""

from __future__ import annotations

import asyncio
import time

import pytest

from railbed.fleet import gate as gate_module
from railbed.fleet import lateness as lateness_module
from railbed.fleet.gate import FIRST, LEAST, Gate
from railbed.fleet.lateness import Lateness

MOST = 32


class Crowd:
    """Many that go through a gate; serves each login in a time that a function of the number inside gives."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.inside = 0
        self.most = 0

    async def visit(self) -> None:
        async with self.gate.place() as place:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0)
            place.logged_in()
            await asyncio.sleep(0)
            self.inside -= 1


async def test_quick_logins_let_in_more_up_to_the_most() -> None:
    crowd = Crowd(Gate(MOST))
    await asyncio.gather(*(crowd.visit() for _ in range(200)))
    assert crowd.gate.limit == MOST
    assert FIRST < crowd.most <= MOST


async def test_slow_logins_let_in_fewer_and_not_twice_for_the_same_crowd() -> None:
    gate = Gate(MOST)
    now = time.monotonic()
    for _ in range(MOST):
        gate.grow(0.1, now)
    assert gate.limit == MOST
    for _ in range(MOST):
        gate.grow(5.0, now)
    assert gate.limit == MOST // 2
    for _ in range(10):
        gate.shrink(time.monotonic())
    assert gate.limit == LEAST


async def test_who_is_cancelled_takes_no_place() -> None:
    gate = Gate(1)
    async with gate.place():
        waiting = [asyncio.create_task(Crowd(gate).visit()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(5), gate.place():
        pass


async def test_devices_that_let_nobody_in_do_not_hold_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "WAITING_SECONDS", 0.01)
    gate, never = Gate(MOST), asyncio.Event()

    async def dead() -> None:
        async with gate.place():
            await never.wait()

    dead_ones = [asyncio.create_task(dead()) for _ in range(FIRST)]
    async with asyncio.timeout(10):
        await Crowd(gate).visit()
    never.set()
    await asyncio.gather(*dead_ones)


async def test_a_busy_machine_knows_that_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness_module, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(lateness_module, "MOST_SECONDS", 0.2)
    lateness = Lateness()
    assert lateness.excess(0.0) == ""
    lateness.start()
    begun = time.monotonic()
    time.sleep(0.3)  # noqa: ASYNC251  (as work of our own does that holds up the loop)
    await asyncio.sleep(0.01)
    assert "overloaded" in lateness.excess(begun)
    assert lateness.excess(time.monotonic() + 60) == ""
    lateness.stop()
