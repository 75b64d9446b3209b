"""The spare step of a connection to a node of a Slurm job, with a command in place of `srun`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from railbed.model.cluster import Login
from railbed.transport import srun
from railbed.transport.base import Command, Target, Transport
from railbed.transport.connect import live_connector

FIRST_SPARE_FAILS = """case "$*" in
*"echo; cd"*) ;;
*) [ -e "${0%/*}/failed" ] || { touch "${0%/*}/failed"; exit 1; } ;;
esac"""
"""The step that shows that a node answers prints something first; spare steps do not."""


@dataclass(frozen=True)
class Steps:
    """What is started in place of `srun`."""

    folder: Path

    @property
    def calls(self) -> list[str]:
        """Process and arguments of each call."""
        return (self.folder / "calls").read_text().splitlines()

    def runs(self, number: int) -> bool:
        """Whether a step has not ended."""
        return Path("/proc", self.calls[number].split()[0]).exists()

    async def until_ended(self, number: int) -> None:
        async with asyncio.timeout(60):
            while len(self.calls) <= number or self.runs(number):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # until asyncio has noticed it, too

    def install(self, condition: str = "") -> None:
        lines = ["#!/bin/sh", 'echo "$$ $@" >>"${0%/*}/calls"', condition, 'while [ "$1" != /bin/sh ]; do shift; done']
        (self.folder / "srun").write_text("\n".join([*lines, 'exec "$@"', ""]))
        (self.folder / "srun").chmod(0o755)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Steps(tmp_path)


@asynccontextmanager
async def connected() -> AsyncIterator[Transport]:
    target = Target(name="a1", host="10.0.0.1", login=Login(slurm_job=7))
    async with live_connector() as connect, connect(target) as transport:
        yield transport


async def echo(transport: Transport, word: str) -> str:
    async with aclosing(transport.run([Command(key="echo", script=f"echo {word}")])) as outputs:
        return (await anext(outputs)).stdout.decode().strip()


async def test_programs_run_in_steps_that_have_waited_for_them(steps: Steps) -> None:
    steps.install()
    async with connected() as node:
        assert [await echo(node, f"secret{number}") for number in range(3)] == ["secret0", "secret1", "secret2"]
    assert len(steps.calls) == 4, "one for each program, and the last spare step"
    assert not any("secret" in call for call in steps.calls), "no program is in a list of processes"
    assert not any(steps.runs(number) for number in range(4))


async def test_programs_at_the_same_time_have_steps_of_their_own(steps: Steps) -> None:
    steps.install()
    async with connected() as node, node.open("cat") as first, node.open("cat") as second:
        await second.write(b"second")
        assert await second.read(1) == b"second"
        await first.write(b"first")
        assert await first.read(1) == b"first"
    assert not any(steps.runs(number) for number in range(len(steps.calls)))


async def test_a_spare_step_that_has_ended_is_replaced(steps: Steps) -> None:
    steps.install(FIRST_SPARE_FAILS)
    async with connected() as node:
        assert await echo(node, "before") == "before"
        for number in (0, 1):  # in any order: both start at the same time
            await steps.until_ended(number)
        assert await echo(node, "after") == "after"


async def test_a_spare_step_that_nobody_needs_ends(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srun, "SPARE_SECONDS", 0.01)
    steps.install()
    async with connected() as node:
        assert await echo(node, "before") == "before"
        await steps.until_ended(1)
        assert await echo(node, "after") == "after"
