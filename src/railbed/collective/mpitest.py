"""Tries MPI in a process beside each rank, so that an MPI that crashes or hangs costs a few seconds and no rank."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from torch._C._distributed_c10d import Store

from railbed.collective import mpilibrary, pmi
from railbed.collective.rendezvous import Rendezvous, exchange
from railbed.collective.rollcall import Reply
from railbed.collective.timing import Timing

END_SECONDS = 5.0
LIMIT_SECONDS = 45.0
"""For MPI to start as well: on an emulated processor that alone takes ten."""
PLACE = r"\S+\.c{1,2}:\d+\s++"
NOISE = re.compile(rf"^\[[^\]]*\]\s*+(?:\[[^\]]*\]\s*+)*+(?:{PLACE})?|(?<!\S){PLACE}")
"""What UCX puts before its sentences: time, host, process, and the line of its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiTest:
    """How MPI did, the same on all ranks."""

    timings: Sequence[Timing] = ()
    why: str = ""
    """Why it does not work; empty where it does."""


def try_mpi(
    store: Store, rendezvous: Rendezvous, replies: Sequence[Reply], sizes: Sequence[int], seconds: float
) -> MpiTest:
    """Let every rank start one process; together they are an MPI world that sums what the gradients would be."""
    with _started(store, rendezvous, replies, sizes, seconds) as trial:
        own = trial.result()
        told = exchange(store, rendezvous, "trial of mpi", json.dumps(own), 2 * LIMIT_SECONDS)
    results = [json.loads(text) for text in told]
    # Who only waited for the others says less than who failed.
    failed = sorted(
        (result["late"], replies[at].place, result["why"]) for at, result in enumerate(results) if result["why"]
    )
    if failed:
        return MpiTest(why=f"{failed[0][1]}: {failed[0][2]}")
    return MpiTest(timings=[Timing(**timing) for timing in results[0]["timings"]])


@contextmanager
def _started(
    store: Store, rendezvous: Rendezvous, replies: Sequence[Reply], sizes: Sequence[int], seconds: float
) -> Iterator[EngineTest]:
    """Start this rank's process. It stays until all have told how it went: the others may need something of it."""
    world = world_of(store, "trial", rendezvous, replies, LIMIT_SECONDS)
    socket, told = pmi.open_door(world)
    command = [sys.executable, "-m", "railbed.collective.timing", str(seconds), *map(str, sizes)]
    with socket, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            env={**os.environ, **mpilibrary.settings(rendezvous.interface, world.machines), **told},
            pass_fds=[socket.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            yield EngineTest(process, said)
        finally:
            process.kill()
            process.communicate()


@dataclass(frozen=True, slots=True)
class EngineTest:
    """A process that tries MPI."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]
    """What it complained of."""

    def result(self) -> dict[str, object]:
        """Return the timings, or why there are none."""
        told = self._line(time.monotonic() + LIMIT_SECONDS)
        if told is None:
            return {"why": f"its trial did not end within {LIMIT_SECONDS:g} s", "late": True, "timings": []}
        if told.endswith(b"\n"):
            return {"why": "", "late": False, "timings": json.loads(told.splitlines()[-1])}
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        self.said.seek(0)
        words = complaint((self.said.read() + told).decode(errors="replace"))
        return {"why": words or f"its trial ended with {self.process.returncode}", "late": False, "timings": []}

    def _line(self, deadline: float) -> bytes | None:
        """Return what it printed up to the end of a line or its own end; None where that takes too long."""
        output = self.process.stdout
        assert output is not None
        told = b""
        while not told.endswith(b"]\n"):
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            piece = os.read(output.fileno(), 65536)
            if not piece:
                return told.rstrip()
            told += piece
        return told


def world_of(store: Store, name: str, rendezvous: Rendezvous, replies: Sequence[Reply], seconds: float) -> pmi.World:
    """Return an MPI world of all ranks."""
    machines = [one.machine for one in replies]
    own = f"{name}-{replies[0].mark}"
    return pmi.World(store=store, name=own, rank=rendezvous.rank, machines=machines, seconds=seconds)


def complaint(said: str) -> str:
    """Return the line that says most of what MPI printed before it ended: UCX's first error, or the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    chosen = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")
    return " ".join(NOISE.sub("", chosen).split())[:300]
