"""Ranks from the fork server: what they receive, how they end, and what happens without it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from railbed.launch.node.spawn import KILLED, Child, Spawner

RANK = """
import os, sys, time, loaded
os.write(int(sys.argv[2]), f"{sys.argv[1]} {loaded.PID == os.getppid()} {os.environ['GIVEN']}".encode())
print("a line")
if sys.argv[1] == "wait":
    time.sleep(60)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "loaded.py").write_text("import os\nPID = os.getpid()\n")
    (tmp_path / "threaded.py").write_text("import threading\nthreading.Thread(target=input, daemon=True).start()\n")
    (tmp_path / "somerank.py").write_text(RANK)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    return tmp_path


@asynccontextmanager
async def spawner(folder: Path, *modules: str) -> AsyncIterator[Spawner]:
    opened = Spawner(folder, modules)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


async def start(spawner: Spawner, argument: str) -> tuple[Child, int, int]:
    """Start a rank; return it with our ends of its output and its messages."""
    (output, its_output), (messages, its_messages) = os.pipe(), os.pipe()
    command = [sys.executable, "-m", "somerank", argument, "{messages}"]
    child = await spawner.start("rank7", command, {"GIVEN": "this"}, its_output, messages=its_messages)
    os.close(its_output)
    os.close(its_messages)
    return child, output, messages


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


async def ended(child: Child) -> int:
    return await asyncio.wait_for(child.code, 20)


@pytest.mark.parametrize(("modules", "forked"), [(("loaded",), True), ((), False), (("threaded",), False)])
async def test_a_rank_is_forked_or_started_and_sees_the_same(
    folder: Path, modules: tuple[str, ...], forked: bool
) -> None:
    async with spawner(folder, *modules) as opened:
        for code in (0, 3):
            child, output, messages = await start(opened, str(code))
            assert await ended(child) == code
            assert (read_all(messages), read_all(output)) == (f"{code} {forked} this".encode(), b"a line\n")


async def test_a_rank_is_ended_by_its_group_and_has_a_name(folder: Path) -> None:
    async with spawner(folder, "loaded") as opened:
        child, output, messages = await start(opened, "wait")
        assert await asyncio.to_thread(os.read, messages, 100) == b"wait True this"
        assert Path(f"/proc/{child.pid.result()}/comm").read_text() == "rank7\n"
        child.signal(signal.SIGKILL)
        assert await ended(child) == KILLED
        assert read_all(messages) == b""  # nobody else has it
        os.close(output)


async def test_without_the_fork_server_its_ranks_end_and_others_start_from_nothing(folder: Path) -> None:
    async with spawner(folder, "loaded") as opened:
        child, output, messages = await start(opened, "wait")
        await asyncio.to_thread(os.read, messages, 100)
        parent = int(Path(f"/proc/{child.pid.result()}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        assert await ended(child) == KILLED
        assert await asyncio.to_thread(read_all, messages) == b""
        os.close(output)
        child, output, messages = await start(opened, "0")
        assert await ended(child) == 0
        assert (read_all(messages), read_all(output)) == (b"0 False this", b"a line\n")
