"""Measure railbed inside a Slurm job against plain `srun`: how soon ranks start, and what a step costs.

    python -m tools.bench_slurm [--rounds 5] [--steps 25]

In a lab with Slurm, in turns. Start: `srun hostname` on four nodes, and `railbed train` until the last of four ranks
is started; nodes have a Python with torch loaded, since `hostname` needs none. Steps: two nodes train the recipe `tiny`
with `railbed train`, and with a bare DDP loop under `srun python`, over the same rail, with the same model, batch,
threads and optimiser; the medians of each pair of runs are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support import warm
from tests.support.labs import RunningLab, running_lab
from tests.support.slurm import User, allocation, user_of

from railbed import clusterfile

ROOT = Path(__file__).parents[1]
NODES, PAIR = 4, 2
WARM_UP = 5
START_GOAL, STEP_GOAL = 3.0, 0.02
PEER_PORT = 29411
SEQUENCES = 64
"""Steps of about a second: control, agents and ranks share the cores of this machine, and a step has a fixed cost."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=25)
    arguments = parser.parse_args()
    print(f"load of the last minute: {os.getloadavg()[0]:.2f}")
    with (
        tempfile.TemporaryDirectory(prefix="railbed-bench-slurm-") as folder,
        running_lab(Path(folder), "--nodes", str(NODES), "--scheduler", "slurm") as lab,
        user_of(lab, "root", warm.start_for_users(lab, Path(folder))["root"]) as user,
    ):
        with allocation(user, f"-N{NODES}") as job:
            report_starts(user.inside(job), arguments.rounds)
        with allocation(user, f"-N{PAIR}") as job:
            report_steps(lab, user.inside(job), arguments.rounds, arguments.steps)


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


def report_steps(lab: RunningLab, user: User, rounds: int, steps: int) -> None:
    """Print the step times of both, and the median of their ratios."""
    times: dict[str, list[float]] = {"railbed": [], "srun python": []}
    for number in range(rounds):
        for name in sorted(times, reverse=number % 2 == 0):
            taken = our_steps(user, steps) if name == "railbed" else their_steps(lab, user, steps)
            times[name].append(statistics.median(taken[WARM_UP:]))
    print(f"steps of `tiny` with {SEQUENCES} sequences on {PAIR} nodes, {rounds} rounds of {steps} steps")
    for name, medians in times.items():
        print(
            f"  {name:<12}{1000 * statistics.median(medians):8.1f} ms per step, "
            f"{1000 * min(medians):.1f} to {1000 * max(medians):.1f} ms"
        )
    ratios = sorted(ours / theirs for ours, theirs in zip(*times.values(), strict=True))
    middle = statistics.median(ratios)
    print(f"  railbed / srun python: {middle:.4f}, the median of the rounds; {ratios[0]:.3f} to {ratios[-1]:.3f}")
    verdict = "met" if middle < 1 + STEP_GOAL else "missed"
    print(f"  the goal, under {STEP_GOAL:.0%} of the step: {verdict} ({middle - 1:+.2%})")


def our_steps(user: User, steps: int) -> list[float]:
    """Train with railbed, and return the seconds of each step of the slower rank."""
    settings = [f"steps={steps}", "threads=1", f"batch.sequences={SEQUENCES}", "shares=equal"]
    settings += ["evaluation.every=0", "checkpoint.steps=1000"]
    words = [word for setting in settings for word in ("--set", setting)]
    result = user.railbed("train", "tiny", "-c", "slurm", "--json", "--transport", "gloo", *words)
    if result.code:
        sys.exit(result.err)
    by_step: dict[int, list[float]] = {}
    for record in result.records:
        if record.get("name") == "step_seconds":
            by_step.setdefault(record["labels"]["step"], []).append(record["value"])
    return [max(by_step[step]) for step in sorted(by_step)]


def their_steps(lab: RunningLab, user: User, steps: int) -> list[float]:
    """Train with a bare loop, and return the seconds of each step of rank 0."""
    port = clusterfile.load(lab.cluster).nodes["node1"].ports[0]
    python = user.folder / "railbed" / "slurm.yaml"
    front = clusterfile.load_site(python, name="x", nodes=clusterfile.load(lab.cluster).nodes).training.python
    words = [
        "srun",
        f"-N{PAIR}",
        f"--ntasks={PAIR}",
        "--overlap",
        "--cpu-bind=none",
        "--mpi=none",
        "--chdir",
        str(ROOT),
    ]
    words += [
        front,
        "-m",
        "tools.srun_peer",
        "tiny",
        str(SEQUENCES),
        str(steps),
        "1",
        str(port.address),
        str(PEER_PORT),
    ]
    variables = {"GLOO_SOCKET_IFNAME": port.netdev, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    result = user.run(*words, **variables)
    if result.code:
        sys.exit(result.err)
    times: list[float] = json.loads(result.out)
    return times


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"took {time.monotonic() - began:.0f} s")
