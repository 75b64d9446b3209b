"""How many devices are read at once, and whether this machine is too slow for a time-out to mean anything."""

from __future__ import annotations

import asyncio
import time

import pytest

from railbed.fleet import limit as limits
from railbed.fleet.limit import FIRST, LEAST, AdaptiveLimit, OverloadMonitor

MOST = 32


class Crowd:
    """Many that go through a limit; serves each login in a time that a function of the number inside gives."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self.inside = 0
        self.most = 0

    async def visit(self) -> None:
        async with self.limit.slot() as slot:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0)
            slot.note_login()
            await asyncio.sleep(0)
            self.inside -= 1


async def test_quick_logins_let_in_more_up_to_the_most() -> None:
    crowd = Crowd(AdaptiveLimit(MOST))
    await asyncio.gather(*(crowd.visit() for _ in range(200)))
    assert crowd.limit.limit == MOST
    assert FIRST < crowd.most <= MOST


async def test_slow_logins_let_in_fewer_and_not_twice_for_the_same_crowd() -> None:
    limit = AdaptiveLimit(MOST)
    now = time.monotonic()
    for _ in range(MOST):
        limit.adjust(0.1, now)
    assert limit.limit == MOST
    for _ in range(MOST):
        limit.adjust(5.0, now)
    assert limit.limit == MOST // 2
    for _ in range(10):
        limit.shrink(time.monotonic())
    assert limit.limit == LEAST


async def test_who_is_cancelled_takes_no_slot() -> None:
    limit = AdaptiveLimit(1)
    async with limit.slot():
        waiting = [asyncio.create_task(Crowd(limit).visit()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(5), limit.slot():
        pass


async def test_devices_that_let_nobody_in_do_not_hold_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_SECONDS", 0.01)
    limit, never = AdaptiveLimit(MOST), asyncio.Event()

    async def dead() -> None:
        async with limit.slot():
            await never.wait()

    dead_ones = [asyncio.create_task(dead()) for _ in range(FIRST)]
    async with asyncio.timeout(10):
        await Crowd(limit).visit()
    never.set()
    await asyncio.gather(*dead_ones)


async def test_a_busy_machine_knows_that_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(limits, "MOST_SECONDS", 0.2)
    overload_monitor = OverloadMonitor()
    assert overload_monitor.excuse(0.0) == ""
    overload_monitor.start()
    begun = time.monotonic()
    time.sleep(0.3)  # noqa: ASYNC251  (as work of our own does that holds up the loop)
    await asyncio.sleep(0.01)
    assert "overloaded" in overload_monitor.excuse(begun)
    assert overload_monitor.excuse(time.monotonic() + 60) == ""
    overload_monitor.stop()
