"""Measure how long the records of a training of three days take to read: 1.9 million lines, most of them measurements.

    python -m tools.bench_records [--days 3] [--ranks 4] [--step 6.5] [--repeats 1] [--only NAME …] [--run FOLDER]

The run is written by what writes every run. Each reader reads it in a process of its own: the table has its processor
time and its memory. `--run` keeps the run in a folder, and uses it again if it is already there.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from tests.support.events import event

from railbed.api.stored import Run, read_run
from railbed.cli.background.runs import show_records
from railbed.cli.screens.train import TrainScreen
from railbed.cli.slurm.attempt import read_history
from railbed.model.record import Record
from railbed.report.reading.run import measurements_in, read
from railbed.store import Store, open_run
from railbed.store.timeline import Timeline
from railbed.train.progress.records import records_of
from railbed.web.metrics.status import TrainingValues, follow_training

DAY = 86_400
CHECKPOINT_STEPS = 500
STARTED = {"recipe": {}, "steps": 100_000, "name": "bench", "ranks": 4}


def main() -> None:
    """Write the run, read it, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--step", type=float, default=6.5, help="seconds")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=READERS, default=list(READERS))
    parser.add_argument("--run", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        parent = arguments.run or Path(temporary)
        seconds = arguments.days * DAY
        run = next(parent.glob("*-train"), None) or write_run(parent, seconds, arguments.step, arguments.ranks)
        size = (run / "records.jsonl").stat().st_size
        print(f"records of {arguments.days:g} days, {arguments.ranks} ranks, {size / 1e6:.0f} MB")
        print("| reader | processor time | memory |\n|---|--:|--:|")
        for name in arguments.only:
            times, sizes = zip(*(measure(name, run) for _ in range(arguments.repeats)), strict=True)
            print(f"| {name} | {median(times):.2f} s | {median(sizes):.0f} MB |", flush=True)


def write_run(parent: Path, seconds: float, step_seconds: float, ranks: int) -> Path:
    """Write the records of a training, and return its folder."""
    start = time.time() - seconds
    with open_run("train", cluster_name="bench", cluster_text="", store=Store(folder=parent)) as run:
        run.append(event("training", data=STARTED, time=start))
        run.append(event("generation", data={"number": 1, "step": 0}, time=start))
        for step in range(1, int(seconds / step_seconds)):
            for record in records_of_step(step, step_seconds, ranks, start + step * step_seconds):
                run.append(record)
        run.finish("done", 0)
    return run.folder


def records_of_step(step: int, seconds: float, ranks: int, when: float) -> Iterator[Record]:
    """Yield what a step of all ranks becomes, and at times a checkpoint."""
    for rank in range(ranks):
        yield from records_of(f"node{rank}", rank, message_of_step(step, seconds, rank, ranks) | {"time": when})
    if step % CHECKPOINT_STEPS == 0:
        for rank in range(ranks):
            fields = {"kind": "checkpoint", "step": step, "rank": rank, "bytes": 10**9, "seconds": 1.5}
            yield from records_of(f"node{rank}", rank, fields)


def message_of_step(step: int, seconds: float, rank: int, ranks: int) -> dict[str, object]:
    """Return the message of a rank."""
    noise = 1 + (step * 7919 + rank * 104_729) % 1000 / 1e4
    parts = {"data": 0.01, "forward": 0.3, "backward": 0.5, "allreduce_exposed": 0.1, "optimiser": 0.05, "other": 0.04}
    return {
        "kind": "progress",
        "step": step,
        "loss": 2.2 + 8 / (1 + step / 60) * noise,
        "learning_rate": 3e-4 / noise,
        "gradient_norm": 1.7 * noise,
        "tokens_per_second": 10_000 * noise,
        "global_tokens_per_second": 40_000 * noise,
        "mfu": 0.4 * noise,
        "step_seconds": seconds * noise,
        "idle_seconds": 0.02 * noise,
        "bytes_sent": 250_000_000,
        "bytes_reduced": 250_000_000,
        "samples": [step * 32 + 32 // ranks * rank, step * 32 + 32 // ranks * (rank + 1)],
        **{f"{part}_seconds": share * seconds * noise for part, share in parts.items()},
    }


def attach(run: Path) -> object:
    """Show the run in the terminal, as `train --attach` does."""
    with (
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        TrainScreen(verbose=False) as screen,
    ):
        asyncio.run(show_records(run, screen, only_drawn=True))
    return screen


def export(run: Path) -> object:
    """Take the newest measurements, as the exporter does."""
    values = TrainingValues()
    values.begin(run.name)
    asyncio.run(follow_training(values, run))
    return values


READERS: Mapping[str, Callable[[Path], object]] = {
    "the time axis (`watch`, `diagnose`)": Timeline,
    "`report`": read,
    "measurements for other programs": lambda run: deque(measurements_in(run), 1),
    "`train --attach`": attach,
    "the exporter": export,
    "a Slurm job that starts again": read_history,
    "`Run.records()`": lambda run: deque(_api_run(run).records(), 1),
    "`Run.findings()`": lambda run: _api_run(run).findings(),
    '`Run.measurements("loss")`': lambda run: _api_run(run).measurements("loss"),
}


def _api_run(run: Path) -> Run:
    return read_run(run)


def measure(name: str, run: Path) -> tuple[float, float]:
    """Return the processor time of a reader in seconds, and by how many megabytes its memory grew."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=_measure_here, args=(name, run, sender))
    process.start()
    result: tuple[float, float] = receiver.recv()
    process.join()
    return result


def _measure_here(name: str, run: Path, sender: Connection) -> None:
    memory, before = _peak(), time.process_time()
    result = READERS[name](run)
    sender.send((time.process_time() - before, _peak() - memory))
    del result


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
