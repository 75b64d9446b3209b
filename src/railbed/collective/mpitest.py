"""Tests MPI in a process beside each rank, so that an MPI that crashes or hangs costs seconds rather than the rank."""

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

from railbed.collective import mpi, pmi
from railbed.collective.choose import Reply
from railbed.collective.rendezvous import Rendezvous, exchange
from railbed.collective.timing import Timing
from railbed.launch.messages import SAFE_PATH

END_SECONDS = 5.0
LIMIT_SECONDS = 60.0
"""This includes the start of MPI, which takes ten seconds on an emulated processor."""
PLACE = r"\S+\.c{1,2}:\d+\s+"
NOISE = re.compile(rf"^\[[^\]]*\]\s*(?:\[[^\]]*\]\s*)*(?:{PLACE})?|(?<!\S){PLACE}")
"""What UCX puts before its sentences: time, host, process, and the line of its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiTest:
    """The result of the test, the same on all ranks."""

    timings: Sequence[Timing] = ()
    why: str = ""
    """Why it does not work; empty if it does."""


def run_mpi_test(
    store: Store, rendezvous: Rendezvous, replies: Sequence[Reply], sizes: Sequence[int], seconds: float
) -> MpiTest:
    """Let every rank start one process; together they are an MPI world that sums buffers of the gradients' sizes."""
    with _start(store, rendezvous, replies, sizes, seconds) as test:
        own = test.result()
        texts = exchange(store, rendezvous, "test of mpi", json.dumps(own), 2 * LIMIT_SECONDS)
    results = [json.loads(text) for text in texts]
    # A rank that only waited for the others explains less than a rank that failed: late results sort last.
    failed = sorted(
        (result["late"], replies[at].place, result["why"]) for at, result in enumerate(results) if result["why"]
    )
    if failed:
        return MpiTest(why=f"{failed[0][1]}: {failed[0][2]}")
    return MpiTest(timings=[Timing(**timing) for timing in results[0]["timings"]])


@contextmanager
def _start(
    store: Store, rendezvous: Rendezvous, replies: Sequence[Reply], sizes: Sequence[int], seconds: float
) -> Iterator[EngineTest]:
    """Start this rank's process. It runs until all have reported their results: the others may still need it."""
    world = world_of(store, "test", rendezvous, replies, LIMIT_SECONDS)
    socket, variables = pmi.serve(world)
    command = [sys.executable, "-m", "railbed.collective.timing", str(seconds), *map(str, sizes)]
    with socket, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command,
            env={**os.environ, **SAFE_PATH, **mpi.settings(rendezvous.interface, world.machines), **variables},
            pass_fds=[socket.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        try:
            yield EngineTest(process, stderr)
        finally:
            process.kill()
            process.communicate()


@dataclass(frozen=True, slots=True)
class EngineTest:
    """A process that tests MPI."""

    process: subprocess.Popen[bytes]
    stderr: IO[bytes]

    def result(self) -> dict[str, object]:
        """Return the timings, or why there are none."""
        output = self._line(time.monotonic() + LIMIT_SECONDS)
        if output is None:
            return {"why": f"its test did not end within {LIMIT_SECONDS:g} s", "late": True, "timings": []}
        if output.endswith(b"\n"):
            return {"why": "", "late": False, "timings": json.loads(output.splitlines()[-1])}
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        self.stderr.seek(0)
        reason = complaint((self.stderr.read() + output).decode(errors="replace"))
        return {"why": reason or f"its test ended with {self.process.returncode}", "late": False, "timings": []}

    def _line(self, deadline: float) -> bytes | None:
        """Return what it printed up to the end of a line or its own end; None if that takes too long."""
        stdout = self.process.stdout
        assert stdout is not None
        output = b""
        while not output.endswith(b"]\n"):
            ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            piece = os.read(stdout.fileno(), 65536)
            if not piece:
                return output.rstrip()
            output += piece
        return output


def world_of(store: Store, name: str, rendezvous: Rendezvous, replies: Sequence[Reply], seconds: float) -> pmi.World:
    """Return an MPI world of all ranks."""
    machines = [reply.machine for reply in replies]
    own = f"{name}-{replies[0].mark}"
    return pmi.World(store=store, name=own, rank=rendezvous.rank, machines=machines, seconds=seconds)


def complaint(printed: str) -> str:
    """Return the most informative line that MPI printed before it ended: UCX's first error, or the last line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    chosen = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")
    return " ".join(NOISE.sub("", chosen).split())[:300]
