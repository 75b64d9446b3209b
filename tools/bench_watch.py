"""Measure what sampling costs: on nodes, on the control machine, and in the steps of a training.

    python -m tools.bench_watch [--nodes 16] [--seconds 60] [--pairs 30] [--window 8]

Needs root. First a netns lab with many nodes is sampled every second. Each node has the counters of eleven RDMA ports,
in files: about 300 series. Then two ranks train on this machine, while sampling is on and off in turns. The steps of
neighbouring windows are compared: from minute to minute a busy machine varies by more than sampling costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from threading import Thread

from railbed import clusterfile
from railbed.api.site import built_in_local
from railbed.fleet import Fleet
from railbed.fleet.sample import sample
from railbed.fleet.sample.node.files import NET
from railbed.model.cluster import Cluster
from railbed.model.meters import Sample
from railbed.parsing.counters.names import RDMA_FAMILIES
from railbed.store.series import SeriesWriter
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector

RAILBED = str(Path(sys.executable).parent / "railbed")
NAME = f"bench-watch-{os.getpid()}"
PORTS = 11
GOAL = 0.01
STEP = ("steps=1000000", "evaluation.every=0", "checkpoint.steps=1000000", "model.layers=2", "batch.sequences=4")
SETTLE_SECONDS = 10.0
READER = """#!{python} -IS
import sys
change = {change!r}
command = sys.argv[-1].replace("exec(bytes(text))", "exec(bytes(text).replace(b'package.reader.main()', change))")
exec(command)
"""
CHANGE = "package.reader.SYS = {folder!r}; package.reader.main()"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--window", type=float, default=8.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="railbed-bench-watch-") as name:
        folder = Path(name)
        if arguments.nodes:
            with lab(folder, arguments.nodes) as cluster:
                asyncio.run(measure_cost(with_cards(cluster, folder), folder, arguments.seconds))
        if arguments.pairs:
            measure_steps(folder, arguments.pairs, arguments.window)


@contextmanager
def lab(folder: Path, nodes: int) -> Iterator[Cluster]:
    """Bring up a lab, and take it down."""
    options = ["--name", NAME, "--nodes", str(nodes), "--json"]
    result = subprocess.run([RAILBED, "lab", "up", *options], cwd=folder, check=True, stdout=subprocess.PIPE)
    try:
        yield clusterfile.load(Path(json.loads(result.stdout.splitlines()[-1])["data"]["cluster"]))
    finally:
        subprocess.run([RAILBED, "lab", "down", "--name", NAME], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def with_cards(cluster: Cluster, folder: Path) -> Cluster:
    """Return the cluster with nodes that have RDMA cards: files like those of mlx5, which never change."""
    tree = folder / "class"
    for number in range(PORTS):
        port = tree / "infiniband" / f"mlx5_{number}" / "ports" / "1"
        for name in (*RDMA_FAMILIES["every port"], *RDMA_FAMILIES["mlx5"]):
            write(port / name, "123456789012\n")
        write(port / "gid_attrs" / "ndevs" / "0", f"ens{number}\n")
        for path in NET.values():
            write(tree / "net" / f"ens{number}" / path, "123456789012\n")
    python = folder / "python3"
    python.write_text(READER.format(python=sys.executable, change=CHANGE.format(folder=str(tree)).encode()))
    python.chmod(0o755)
    nodes = {name: node.model_copy(update={"python": str(python)}) for name, node in cluster.nodes.items()}
    return cluster.model_copy(update={"nodes": nodes})


def write(path: Path, text: str) -> None:
    """Write a file, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def measure_cost(cluster: Cluster, folder: Path, seconds: float) -> None:
    """Sample for a while, and print the processor time of the readers and of this process."""
    rows: dict[str, list[Sample]] = {name: [] for name in cluster.nodes}
    sampled = asyncio.Event()
    (folder / "run").mkdir()
    with SeriesWriter(folder / "run") as writer:

        def take(row: Sample) -> None:
            writer.append(row)
            rows[row.device].append(row)
            if all(rows.values()):
                sampled.set()

        async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
            sampling = asyncio.create_task(run(cluster, fleet, take))
            await sampled.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            before, start = processor_seconds(), time.monotonic()
            first = {name: some[-1] for name, some in rows.items()}
            await asyncio.sleep(seconds)
            used, passed = processor_seconds() - before, time.monotonic() - start
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
    shares = [reader_share(first[name], row[-1]) for name, row in rows.items()]
    counts = [len([row for row in some if row.time > first[name].time]) for name, some in rows.items()]
    series = statistics.median(len(row.values) for row in first.values())
    print(f"{len(rows)} nodes, {series:.0f} series each, every second, for {passed:.0f} s")
    print(f"  a reader uses {statistics.median(shares):.3%} of a core in the median, {max(shares):.3%} at most")
    print(
        f"  control uses {used / passed:.2%} of a core, storing included: {used / passed / len(rows):.3%} for each node"
    )
    print(f"  samples of a node: {min(counts)} to {max(counts)}")
    print(f"  the goal, under {GOAL:.0%} of a core for a reader: {'met' if max(shares) < GOAL else 'missed'}")


async def run(cluster: Cluster, fleet: Fleet, take: object) -> None:
    """Sample until this is cancelled."""
    async with aclosing(sample(cluster, fleet, take)) as events:  # type: ignore[arg-type]
        async for event in events:
            if event.name != "sampling":
                print(f"  {event.subject}: {event.message}")


def processor_seconds() -> float:
    """Return the processor time that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def reader_share(first: Sample, last: Sample) -> float:
    """Return the share of a core that a reader used between two of its samples."""
    place = next(index for index, series in enumerate(first.layout) if series.meter == "reader_cpu_us")
    return (last.values[place] - first.values[place]) / 1e6 / (last.time - first.time)


def measure_steps(folder: Path, pairs: int, window: float) -> None:
    """Train with two ranks, sample in every other window, and print how much longer steps take."""
    steps: list[tuple[float, float]] = []
    quick = [part for key in STEP for part in ("--set", key)]
    options = [*quick, "--cluster", "local", "--sample", "0", "--json"]
    command = [RAILBED, "train", "tiny", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as training:
        Thread(target=read_steps, args=(training, steps), daemon=True).start()
        try:
            while len(steps) < 10:
                time.sleep(0.2)
            windows = asyncio.run(alternate(built_in_local(), 2 * pairs, window))
        finally:
            training.terminate()
    medians = [median_between(steps, start, end) for start, end in windows]
    # The order changes from pair to pair, so that a drift does not count for one side.
    pairs_of_windows = zip(medians[::2], medians[1::2], strict=True)
    in_order = [pair if number % 2 == 0 else pair[::-1] for number, pair in enumerate(pairs_of_windows)]
    ratios = [on / off for on, off in in_order if on and off]
    report(ratios, medians, window)


def read_steps(training: subprocess.Popen[bytes], steps: list[tuple[float, float]]) -> None:
    """Append end and duration of every step."""
    assert training.stdout is not None
    for line in training.stdout:
        record: Mapping[str, object] = json.loads(line)
        if record.get("name") == "step_seconds" and dict(record["labels"]).get("rank") == 0:  # type: ignore[call-overload]
            steps.append((float(str(record["time"])), float(str(record["value"]))))


async def alternate(cluster: Cluster, count: int, window: float) -> list[tuple[float, float]]:
    """Sample in half of the windows: on, off, off, on, on, … Return when each began and ended."""
    windows = []
    async with live_connector() as connect, Fleet(targets_of(cluster), connect) as fleet:
        for number in range(count):
            sampling = asyncio.create_task(run(cluster, fleet, lambda _: None)) if number % 4 in (0, 3) else None
            await asyncio.sleep(1.0)  # starting is not sampling
            start = time.time()
            await asyncio.sleep(window)
            windows.append((start, time.time()))
            if sampling:
                sampling.cancel()
                await asyncio.gather(sampling, return_exceptions=True)
            else:
                await asyncio.sleep(0.1)
    return windows


def median_between(steps: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return the median duration of the steps that lie within a window; 0 without any."""
    within = [seconds for moment, seconds in steps if moment <= end and moment - seconds >= start]
    return statistics.median(within) if within else 0.0


def report(ratios: Sequence[float], medians: Sequence[float], window: float) -> None:
    """Print the ratio of steps with sampling to steps without."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"training on two ranks of this machine, {len(ratios)} pairs of windows of {window:g} s")
    print(f"  a step takes {1000 * statistics.median(medians):.0f} ms in the median")
    print(f"  with sampling / without: {middle:.4f} in the median; half of the pairs between {low:.3f} and {high:.3f}")
    print(f"  the goal, under {GOAL:.0%} of the step: {'met' if middle < 1 + GOAL else 'missed'} ({middle - 1:+.2%})")


if __name__ == "__main__":
    main()
