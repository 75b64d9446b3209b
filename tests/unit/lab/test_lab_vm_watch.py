"""Long work with a log: its stages are reported as they happen, and stalled work is ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from railbed.lab.host import HostFault
from railbed.lab.vm import foreign, watch


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.005)


async def stages_of(work: asyncio.Task[str], log: Path) -> list[str]:
    async with aclosing(watch.follow_log(work, log, foreign.last_line, most=60)) as stages:
        return [stage async for stage in stages]


async def test_each_stage_is_reported_once(tmp_path: Path) -> None:
    log, noticed = tmp_path / "log", asyncio.Event()

    async def work() -> str:
        await asyncio.sleep(0.02)
        log.write_text("[  1.0] Run /init\nSetting up a (1) ...\nsomething\n")
        await asyncio.sleep(0.05)
        noticed.set()
        return ""

    assert await stages_of(asyncio.create_task(work()), log) == ["booting", "Setting up a (1) ..."]
    assert noticed.is_set()


async def test_work_that_has_stalled_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "QUIET_SECONDS", 0.01)
    work = asyncio.create_task(asyncio.sleep(600, ""))
    with pytest.raises(HostFault, match="no sign of progress"):
        await stages_of(work, tmp_path / "log")
    assert work.cancelled()


async def test_a_failure_of_the_work_is_the_failure(tmp_path: Path) -> None:
    async def work() -> str:
        raise HostFault("QEMU ended")

    with pytest.raises(HostFault, match="QEMU ended"):
        await stages_of(asyncio.create_task(work()), tmp_path / "log")


async def test_whoever_leaves_takes_the_work_along(tmp_path: Path) -> None:
    work = asyncio.create_task(asyncio.sleep(600, ""))
    async with aclosing(watch.follow_log(work, tmp_path / "log", foreign.last_line, most=60)) as stages:
        assert await anext(stages) == "booting"
    assert work.cancelled()
