"""Keeps a watchdog on two nodes other than the batch host, and sends them heartbeats: see `watchdog.py`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

from railbed.cli.slurm import watchdog
from railbed.errors import DeviceError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster
from railbed.parsing.text import quote_path
from railbed.store import write_atomically
from railbed.store.run import ALIVE
from railbed.transport.base import Program

WATCHDOGS = 2
"""So that the loss of one other node leaves one."""
BEAT_SECONDS, FILE_SECONDS = 1.0, 3.0
RETRY_SECONDS = 5.0
END_SECONDS = 2.0
REASON = "watchdog.json"
LARGEST_BYTES = 1 << 16
START = "import os; t = b''; exec('while len(t) < {size}: t += os.read(0, {size} - len(t)) or exit()'); exec(t)"
"""Reads the program from standard input, byte for byte: a buffer would swallow what follows."""


@asynccontextmanager
async def watchdogs(fleet: Fleet, cluster: Cluster, job: int, folder: Path) -> AsyncIterator[None]:
    """Keep watchdogs while the context is open; a job with one node has none, since Slurm ends it with its node."""
    host = os.environ.get("SLURMD_NODENAME", "")
    others = deque(name for name in cluster.nodes if name != host)
    if not host or not others:
        yield
        return
    settings = json.dumps({"job": job, "host": host, "folder": str(folder)}).encode() + b"\n"
    keepers = [_keep(fleet, cluster, others, settings) for _ in range(min(WATCHDOGS, len(others)))]
    tasks = [asyncio.create_task(work) for work in (_beat_in(folder), *keepers)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS + 1.0):
                await asyncio.gather(*tasks, return_exceptions=True)
        (folder / ALIVE).unlink(missing_ok=True)


def take_reason(folder: Path) -> str:
    """Return why a watchdog requeued the job before this start, and forget it; empty if none did."""
    path = folder / REASON
    try:
        with path.open("rb") as file:
            reason = json.loads(file.read(LARGEST_BYTES))["reason"]
        path.unlink()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return str(reason)


async def _beat_in(folder: Path) -> None:
    """Write a heartbeat into the run's folder. A file server that hangs must not hang everything else."""
    count = 0
    while True:
        count += 1
        with suppress(OSError):
            await asyncio.to_thread(write_atomically, folder / ALIVE, f"{os.getpid()} {count}\n".encode())
        await asyncio.sleep(FILE_SECONDS)


async def _keep(fleet: Fleet, cluster: Cluster, others: deque[str], settings: bytes) -> None:
    """Keep one watchdog running, on another node if one fails."""
    program = _program()
    while True:
        node = others.popleft()
        try:
            async with fleet.open(node, watchdog_command(cluster.python_of(node), len(program))) as remote:
                await remote.write(program + settings)
                await _feed(remote)
        except DeviceError:
            pass
        finally:
            others.append(node)
        await asyncio.sleep(RETRY_SECONDS)


def watchdog_command(python: str, size: int) -> str:
    """Return the command that reads a program of so many bytes and runs it."""
    return f"exec {quote_path(python)} -I -B -c {shlex.quote(START.format(size=size))}"


@cache
def _program() -> bytes:
    return Path(watchdog.__file__).read_bytes() + b"\nmain()\n"


async def _feed(remote: Program) -> None:
    """Send heartbeats until the watchdog has ended; say so when we end."""
    ended = asyncio.create_task(_until_it_ends(remote))
    try:
        while not ended.done():
            await remote.write(b"\n")
            await asyncio.wait([ended], timeout=BEAT_SECONDS)
    finally:
        ended.cancel()
        with suppress(TimeoutError, DeviceError):
            async with asyncio.timeout(END_SECONDS):
                await asyncio.shield(remote.write(b"end\n"))


async def _until_it_ends(remote: Program) -> None:
    with suppress(DeviceError):
        while await remote.read(1):
            pass
