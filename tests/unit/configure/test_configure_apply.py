"""Devices are changed at the same time, and the steps of each strictly in order."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from railbed.configure import apply
from railbed.configure.request import Callbacks
from railbed.fleet import Fleet, change
from railbed.fleet.change import commit
from railbed.model.events import ChangeStarted, DeviceChanged
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.transport.base import Target
from railbed.transport.connect import live_connector

DEVICES = ("node1", "node2", "nexus")


async def confirm(_question: str) -> bool:
    return True


CALLBACKS = Callbacks(
    confirm=confirm, save=lambda _: None, exclusive=nullcontext, run_name=lambda: "run", write=lambda _: ""
)


def fix(device: str, *commands: str) -> Fix:
    return Fix(device=device, apply=as_steps(*commands), undo=as_steps(":"), persistence=Persistence.KEPT)


async def test_devices_are_changed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change waits for all the others to begin: one after another, none would end."""
    all_begun = asyncio.Barrier(len(DEVICES))

    async def wait_for_the_others(*_: Any) -> str:
        await all_begun.wait()
        return ""

    monkeypatch.setattr(apply, "_commit", wait_for_the_others)
    async with (
        live_connector() as connect,
        Fleet([Target(name=name, host="local") for name in DEVICES], connect) as fleet,
    ):
        async with asyncio.timeout(60):
            changes = apply.change_devices(fleet, [fix(name, "true") for name in DEVICES], CALLBACKS, outcome="applied")
            outcomes = {record.subject: record.outcome async for record in changes if isinstance(record, DeviceChanged)}
    assert outcomes == dict.fromkeys(DEVICES, "applied")


@pytest.mark.parametrize(("run", "order"), [(None, ["switch", "node"]), ("earlier", ["node", "switch"])])
async def test_switches_are_changed_before_nodes_and_undone_after_them(
    monkeypatch: pytest.MonkeyPatch, run: str | None, order: list[str]
) -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def note(_: Fleet, fix: Fix, *__: Any) -> str:
        begun.append(fix.device)
        await asyncio.sleep(0)
        assert len(begun) == len(ended) + 1, "the other kind of device waits"
        ended.append(fix.device)
        return ""

    monkeypatch.setattr(apply, "_commit", note)
    targets = [Target(name="node", host="local"), Target(name="switch", host="local", kind="switch")]
    async with live_connector() as connect, Fleet(targets, connect) as fleet:
        fixes = [fix(target.name, "true") for target in targets]
        records = apply.change_devices(fleet, fixes, CALLBACKS, outcome="undone" if run else "applied", run=run)
        started = [record.subject async for record in records if isinstance(record, ChangeStarted)]
    assert (begun, started) == (order, order)


async def test_the_steps_of_a_device_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is the slowest: run at once, it would be the last."""
    monkeypatch.setattr(change, "FOLDER", str(tmp_path / "railbed"))
    monkeypatch.setattr(change, "LOCK", str(tmp_path / "railbed" / "change.lock"))
    file = tmp_path / "order"
    steps = [f"sleep {delay}; echo {number} >>{file}" for number, delay in enumerate((0.2, 0.1, 0))]
    async with live_connector() as connect, Fleet([Target(name="n1", host="local")], connect) as fleet:
        await commit(fleet, fix("n1", *steps), save=lambda _: None)
    assert file.read_text().split() == ["0", "1", "2"]
