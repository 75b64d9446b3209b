"""Measure railbed inside a Slurm job against plain `srun`: how soon ranks start, and what a step costs.

    python -m tools.bench_slurm [--rounds 5] [--pairs 60]

In a lab with Slurm, in turns. Start: `srun hostname` on four nodes, and `railbed train` until the last of four ranks
is started; nodes have a Python with torch loaded, since `hostname` needs none. Steps: two nodes train the recipe `tiny`
with `railbed train`, and with a bare DDP loop under `srun python`, over the same rail, with the same model, batch,
threads and optimiser (see `bench_slurm_steps`). Without rounds or pairs, that half is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support import warm
from tests.support.labs import running_lab
from tests.support.slurm import User, allocation, user_of

from tools.bench_slurm_steps import PAIR, report_steps

NODES = 4
START_GOAL = 3.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=60)
    arguments = parser.parse_args()
    print(f"load of the last minute: {os.getloadavg()[0]:.2f}")
    with (
        tempfile.TemporaryDirectory(prefix="railbed-bench-slurm-") as folder,
        running_lab(Path(folder), "--nodes", str(NODES), "--scheduler", "slurm") as lab,
        warm.running_for_users(lab, Path(folder)) as pythons,
        user_of(lab, "root", pythons["root"]) as user,
    ):
        if arguments.rounds:
            with allocation(user, f"-N{NODES}") as job:
                report_starts(user.inside(job), arguments.rounds)
        if arguments.pairs:
            with allocation(user, f"-N{PAIR}") as job:
                report_steps(lab, user.inside(job), arguments.pairs)


def report_starts(user: User, rounds: int) -> None:
    """Print how long ranks take to start, and how much longer that is than `srun hostname`."""
    times: dict[str, list[float]] = {"srun hostname": [], "railbed train": [], "railbed train --no-check": []}
    for number in range(rounds + 1):
        taken = {
            "srun hostname": hostname_seconds(user),
            "railbed train": start_seconds(user),
            "railbed train --no-check": start_seconds(user, "--no-check"),
        }
        if number:  # the first round fills caches, and copies code and text to the nodes
            for name, seconds in taken.items():
                times[name].append(seconds)
    print(f"ranks on {NODES} nodes, {rounds} rounds")
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, samples in times.items():
        print(f"  {name:<26}{medians[name]:6.2f} s, {min(samples):.2f} to {max(samples):.2f} s")
    for name in list(medians)[1:]:
        longer = medians[name] - medians["srun hostname"]
        verdict = "met" if longer < START_GOAL else "missed"
        print(f"  the goal for `{name}`, {START_GOAL:g} s longer than `srun hostname`: {verdict} ({longer:+.2f} s)")


def hostname_seconds(user: User) -> float:
    """Return how long `srun hostname` takes on all nodes, measured there: without the login to the controller."""
    script = f"start=$(date +%s.%N); srun --overlap -N{NODES} hostname >/dev/null; date +%s.%N; echo $start"
    end, start = user.run("sh", "-c", script).out.split()
    return float(end) - float(start)


def start_seconds(user: User, *options: str) -> float:
    """Return the seconds from the start of railbed until the last rank is started, by the times of the job files."""
    script = f"date +%s.%N; exec {Path(sys.executable).parent / 'railbed'} train small.yaml -c slurm --json "
    script += " ".join(["--set", "steps=2", "--set", "checkpoint.steps=1000", *options])
    before = set(user.folder.glob(".railbed/runs/*"))
    result = user.run("sh", "-c", script)
    start, _, _ = result.out.partition("\n")
    if result.code:
        sys.exit(result.err)
    (run,) = set(user.folder.glob(".railbed/runs/*")) - before
    return max(file.stat().st_mtime for file in run.glob("*/rank*.g1.json")) - float(start)


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"took {time.monotonic() - began:.0f} s")
