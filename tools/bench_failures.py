"""Measure how long a failure interrupts training: railbed against plain torchrun, on four nodes of a netns lab.

Both train the same small model, save every ten steps, and may continue with three nodes. torchrun is started on every
node over SSH, with its rendezvous (c10d) on the first, which no fault affects: torchrun does not survive that. A round
is one job and one fault. A job that does not continue within LIMIT_SECONDS is not tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.labs import RunningLab, running_lab
from tests.support.training import Training, training, training_site

from railbed.lab.fault import heal, inflict
from railbed.lab.folder import load_lab
from railbed.lab.model import Fault, FaultName
from railbed.lab.netns.machine import processes
from railbed.model.record import Record
from tools.torchrun import RANKS, Torchrun

ROUNDS = int(os.environ.get("ROUNDS", "3"))
LIMIT_SECONDS = float(os.environ.get("LIMIT_SECONDS", "120"))
WARM_STEPS = 25
VICTIM = "node3"
FAULTS: dict[str, FaultName | None] = {
    "rank killed": None,
    "node killed": "kill",
    "node frozen": "freeze",
    "node cut": "cut",
}


@dataclass(frozen=True)
class Times:
    """Seconds after a fault; None if not within the limit."""

    noticed: float | None
    stepped: float | None


def main() -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the lab is taken down then, too
    print(f"{'':>14}{'railbed':>20}{'torchrun':>30}   medians; rounds of each")
    print(f"{'':>14}{'notices':>10}{'resumes':>10}{'notices':>12}{'resumes':>18}")
    with (
        tempfile.TemporaryDirectory(prefix="railbed-bench-failures-") as name,
        running_lab(Path(name), "--nodes", "4") as running,
    ):
        lab = training_site(running, Path(name))
        for title, fault in FAULTS.items():
            ours = rounds(lambda fault=fault: railbed_round(lab, fault))  # type: ignore[misc]
            theirs = rounds(lambda fault=fault: torchrun_round(lab, fault))  # type: ignore[misc]
            figures = f"{format_median(ours, 'noticed'):>10}{format_median(ours, 'stepped'):>10}"
            peers = f"{format_median(theirs, 'noticed'):>12}{format_median(theirs, 'stepped'):>18}"
            print(f"{title:>14}{figures}{peers}   {len(ours)}, {len(theirs)}", flush=True)
        ends = [control_round(lab) for _ in range(ROUNDS)]
    print(f"control killed: no rank left on any node after {statistics.median(ends):.2f} s; {ROUNDS} rounds")
    print("(torchrun has no control process: it must be ended on each node)")


def rounds(measure: Callable[[], Times]) -> list[Times]:
    """Measure several times; only once if it exceeds the limit."""
    durations = [measure()]
    while len(durations) < ROUNDS and durations[-1].stepped is not None:
        durations.append(measure())
    return durations


def format_median(times: Sequence[Times], name: str) -> str:
    """Format the median, or that the limit was exceeded."""
    seconds = [getattr(duration, name) for duration in times]
    return f"not in {LIMIT_SECONDS:g} s" if None in seconds else f"{statistics.median(seconds):.1f} s"


def railbed_round(lab: RunningLab, fault: FaultName | None) -> Times:
    """Train, inject a fault, and return when it was noticed and when the next step was taken."""
    try:
        with steady_training(lab) as run:
            at = put(lab, fault, "'^rank'")
            noticed = run.until(lambda record: record["name"] == "restart", LIMIT_SECONDS)["time"] - at
            run.until(lambda record: record["name"] == "generation", LIMIT_SECONDS)
            return Times(noticed, run.until(lambda record: record["name"] == "loss", LIMIT_SECONDS)["time"] - at)
    finally:
        power_cycle(lab)


def torchrun_round(lab: RunningLab, fault: FaultName | None) -> Times:
    """Do the same with torchrun."""
    (lab.folder / "state.pt").unlink(missing_ok=True)
    try:
        with Torchrun(lab) as run:
            run.await_steps(WARM_STEPS, LIMIT_SECONDS)
            at = put(lab, fault, RANKS)
            noticed, stepped = run.watch(at, LIMIT_SECONDS)
            return Times(noticed and noticed - at, stepped and stepped - at)
    finally:
        power_cycle(lab)


def control_round(lab: RunningLab) -> float:
    """Kill railbed itself, and return how long its ranks survive."""
    with steady_training(lab) as run:
        run.process.kill()
        start = time.monotonic()
        while ranks_left(lab):
            if time.monotonic() > start + LIMIT_SECONDS:
                raise TimeoutError("ranks are left")
            time.sleep(0.02)
        return time.monotonic() - start


@contextmanager
def steady_training(lab: RunningLab) -> Iterator[Training]:
    """Train on all four nodes until there are some checkpoints."""
    with training(lab, "small.yaml", "-c", "cluster.yaml", "--min-nodes", "3", "--set", "steps=1000000") as run:
        run.until(lambda _: run.steps >= WARM_STEPS, LIMIT_SECONDS)
        yield run


def ranks_left(lab: RunningLab) -> bool:
    """Whether any process of railbed still runs on a node."""
    stored = load_lab(lab.name)
    return any(b"railbed.launch" in _command_line(pid) for pid in processes(stored, stored.nodes))


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def put(lab: RunningLab, fault: FaultName | None, ranks: str) -> float:
    """Inject a fault and return when; without a name, kill the ranks of a node."""
    if fault is None:
        return float(lab.shell(VICTIM, f"date +%s.%N; pkill -KILL {ranks}").out)
    start = time.time()
    asyncio.run(_do(inflict(lab.name, Fault(fault, VICTIM))))
    return start


def power_cycle(lab: RunningLab) -> None:
    """End everything on the nodes, whatever state they are in, and start them again."""
    for node in load_lab(lab.name).nodes:
        asyncio.run(_do(inflict(lab.name, Fault("kill", node.name))))
    asyncio.run(_do(heal(lab.name, None)))


async def _do(records: AsyncGenerator[Record, None]) -> None:
    async for _ in records:
        pass


if __name__ == "__main__":
    main()
