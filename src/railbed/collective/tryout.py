"""Tries MPI in a process beside each rank, so that an MPI that crashes or hangs costs a few seconds and no rank."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from torch._C._distributed_c10d import Store

from railbed.collective import library, pmi
from railbed.collective.meet import Meeting, exchange
from railbed.collective.roll import Answer
from railbed.collective.trial import Timing

LIMIT_SECONDS = 45.0
"""For MPI to start as well: on an emulated processor that alone takes ten."""
NOISE = re.compile(r"^\[[^\]]*\]\s*(\[[^\]]*\]\s*)*|\S+\.c{1,2}:\d+\s+")
"""What UCX puts before its sentences: time, host, process, and the line of its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How MPI did, the same on all ranks."""

    timings: Sequence[Timing] = ()
    why: str = ""
    """Why it does not work; empty where it does."""


def try_mpi(store: Store, meeting: Meeting, answers: Sequence[Answer], sizes: Sequence[int], seconds: float) -> Tried:
    """Let every rank start one process; together they are an MPI world that sums what the gradients would be."""
    own = _run(store, meeting, answers, sizes, seconds)
    told = exchange(store, meeting, "trial of mpi", json.dumps(own), 2 * LIMIT_SECONDS)
    results = [json.loads(text) for text in told]
    # Who only waited for the others says less than who failed.
    failed = sorted(
        (result["late"], answers[at].place, result["why"]) for at, result in enumerate(results) if result["why"]
    )
    if failed:
        return Tried(why=f"{failed[0][1]}: {failed[0][2]}")
    return Tried(timings=[Timing(**timing) for timing in results[0]["timings"]])


def _run(
    store: Store, meeting: Meeting, answers: Sequence[Answer], sizes: Sequence[int], seconds: float
) -> dict[str, object]:
    world = world_of(store, "trial", meeting, answers, LIMIT_SECONDS)
    socket, told = pmi.open_door(world)
    command = [sys.executable, "-m", "railbed.collective.trial", str(seconds), *map(str, sizes)]
    try:
        with socket:
            done = subprocess.run(
                command,
                env={**os.environ, **library.settings(meeting.interface, world.machines), **told},
                pass_fds=[socket.fileno()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return {"why": f"its trial did not end within {LIMIT_SECONDS:g} s", "late": True, "timings": []}
    if done.returncode:
        said = complaint(done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace"))
        return {"why": said or f"its trial ended with {done.returncode}", "late": False, "timings": []}
    return {"why": "", "late": False, "timings": json.loads(done.stdout.splitlines()[-1])}


def world_of(store: Store, name: str, meeting: Meeting, answers: Sequence[Answer], seconds: float) -> pmi.World:
    """Return an MPI world of all ranks."""
    machines = [one.machine for one in answers]
    own = f"{name}-{answers[0].mark}"
    return pmi.World(store=store, name=own, rank=meeting.rank, machines=machines, seconds=seconds)


def complaint(said: str) -> str:
    """Return the line that says most of what MPI printed before it ended: UCX's first error, or the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    chosen = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "")
    return " ".join(NOISE.sub("", chosen).split())[:300]
