"""Measure `railbed check` on many healthy nodes: seconds, failures and memory on netns labs of 4, 16 and 64 nodes.

    python -m tools.bench_scale [--nodes 4 16 64] [--repeats 10]

Needs root. The goal, on two cores: no failure in ten repeats, 64 nodes in at most 8 times the time of 4, under 100 MB.
Also prints how long `railbed --help` takes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

RAILBED = str(Path(sys.executable).parent / "railbed")
NAME = f"bench-scale-{os.getpid()}"
HELP_ROUNDS = 15


@dataclass(frozen=True)
class Sample:
    """One check of a lab."""

    seconds: float
    megabytes: float
    code: int
    verdicts: Counter[str]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--repeats", type=int, default=int(os.environ.get("REPEATS", "10")))
    arguments = parser.parse_args()
    medians = {}
    print(f"{'nodes':>6}{'median':>10}{'slowest':>10}{'memory':>10}{'failed':>8}{'unknown':>9}   exit codes")
    with tempfile.TemporaryDirectory(prefix="railbed-bench-scale-") as folder:
        for nodes in arguments.nodes:
            samples = measure(Path(folder), nodes, arguments.repeats)
            medians[nodes] = statistics.median(sample.seconds for sample in samples)
            print(row(nodes, samples), flush=True)
    first, last = min(medians), max(medians)
    print(f"{last} nodes take {medians[last] / medians[first]:.1f} times the time of {first}")
    print(f"railbed --help: {1000 * median_of_help():.0f} ms (median of {HELP_ROUNDS})")


def measure(folder: Path, nodes: int, repeats: int) -> list[Sample]:
    """Bring up a lab, check it several times, and take it down."""
    cache = folder / "cache"
    run(folder, cache, "lab", "up", "--name", NAME, "--nodes", str(nodes))
    try:
        cluster = cache / "labs" / NAME / "cluster.yaml"
        return [sample(folder, cluster) for _ in range(repeats)]
    finally:
        run(folder, cache, "lab", "down", "--name", NAME)


def run(folder: Path, cache: Path, *arguments: str) -> None:
    """Run railbed with its own cache, and exit if it fails."""
    environment = {**os.environ, "RAILBED_CACHE": str(cache)}
    done = subprocess.run(
        [RAILBED, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)


def sample(folder: Path, cluster: Path) -> Sample:
    """Check once, and return the time and the peak memory."""
    start = time.monotonic()
    with subprocess.Popen(
        [RAILBED, "check", "--json", "-c", str(cluster)], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        records = [json.loads(line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    verdicts = Counter(record["verdict"] for record in records if record["kind"] == "finding")
    return Sample(seconds, usage.ru_maxrss / 1024, process.returncode, verdicts)


def row(nodes: int, samples: list[Sample]) -> str:
    """Return a line of the table."""
    seconds = [sample.seconds for sample in samples]
    failed, unknown = (sum(sample.verdicts[verdict] for sample in samples) for verdict in ("fail", "unknown"))
    codes = ", ".join(f"{code}: {times}" for code, times in Counter(sample.code for sample in samples).items())
    memory = max(sample.megabytes for sample in samples)
    return (
        f"{nodes:>6}{statistics.median(seconds):>8.2f} s{max(seconds):>8.2f} s{memory:>7.0f} MB{failed:>8}{unknown:>9}"
        f"   {codes}"
    )


def median_of_help() -> float:
    """Return how long `railbed --help` takes."""
    times = []
    for _ in range(HELP_ROUNDS):
        start = time.monotonic()
        with suppress(subprocess.CalledProcessError):
            subprocess.run([RAILBED, "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.monotonic() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main()
