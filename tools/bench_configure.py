"""Compare `railbed configure`, which shows the changes, with `railbed check` on 16 nodes and two switches, in turns.

    python -m tools.bench_configure [--nodes 16] [--repeats 5]

Needs root. The nodes are those of a netns lab, the switches emulated and in factory state, so that almost every rule
about them has a fix to plan. The goal: configure takes at most 1.5 times as long as check.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from railbed import clusterfile
from railbed.model.cluster import Cluster

RAILBED = str(Path(sys.executable).parent / "railbed")
NAME = f"bench-configure-{os.getpid()}"
GOAL = 1.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=int(os.environ.get("REPEATS", "5")))
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {"check": [], "configure": []}
    with tempfile.TemporaryDirectory(prefix="railbed-bench-configure-") as name:
        folder = Path(name)
        with lab(folder, NAME, arguments.nodes) as first, lab(folder, f"{NAME}-2", 1) as second:
            (folder / "cluster.yaml").write_text(clusterfile.dumps(join(first, second)), encoding="utf-8")
            for _ in range(arguments.repeats):
                for verb, times in seconds.items():
                    times.append(measure(folder, verb))
            changes = count_changes(folder)
    medians = {verb: statistics.median(times) for verb, times in seconds.items()}
    for verb, times in seconds.items():
        print(f"{verb:<10} {medians[verb]:6.2f} s median, {min(times):.2f} to {max(times):.2f} s")
    ratio = medians["configure"] / medians["check"]
    print(f"configure takes {ratio:.2f} times as long as check (goal: {GOAL}); it plans {changes} changes")


@contextmanager
def lab(folder: Path, name: str, nodes: int) -> Iterator[Cluster]:
    """Bring up a lab with a switch, and take it down; yield its cluster file."""
    run(folder, "lab", "up", "--name", name, "--nodes", str(nodes), "--switch")
    try:
        yield clusterfile.load(folder / "cache" / "labs" / name / "cluster.yaml")
    finally:
        run(folder, "lab", "down", "--name", name)


def join(first: Cluster, second: Cluster) -> Cluster:
    """Return the first cluster with half of its ports on the switch of the second."""
    ((name, switch),) = first.switches.items()
    (other,) = second.switches.values()
    half = len(switch.ports) // 2
    switches = {
        name: switch.model_copy(update={"ports": switch.ports[:half]}),
        f"{name}2": other.model_copy(update={"ports": switch.ports[half:], "login": other.login.over(second.login)}),
    }
    return first.model_copy(update={"switches": switches})


def measure(folder: Path, verb: str) -> float:
    """Run a verb and return how long it took; findings and changes are expected."""
    start = time.monotonic()
    run(folder, verb, "--json", allowed=(0, 1))
    return time.monotonic() - start


def count_changes(folder: Path) -> int:
    """Return how many changes configure plans; every device has to answer."""
    records = [json.loads(line) for line in run(folder, "configure", "--json", allowed=(0, 1)).splitlines()]
    silent = [record["subject"] for record in records if record.get("check") == "reachable"]
    if silent:
        sys.exit(f"{', '.join(silent)}: not reached")
    return sum(record["kind"] == "change" for record in records)


def run(folder: Path, *arguments: str, allowed: tuple[int, ...] = (0,)) -> str:
    """Run railbed with its own cache, and exit if it fails."""
    environment = {**os.environ, "RAILBED_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [RAILBED, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in allowed:
        sys.exit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
