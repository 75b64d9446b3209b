"""The second half of `bench_slurm`: what a step costs with `railbed train`, and with plain `srun python`.

Both train in short windows, in turns, and the two windows of a pair are compared: from minute to minute a machine
varies by more than railbed costs. Rank 0 notes the time at the end of each step, in both in the same way. The kernel's
account of every process in the lab shows what else runs: on the nodes beside the ranks, and where railbed itself runs.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.support.labs import RunningLab
from tests.support.slurm import User

from railbed import clusterfile

ROOT = Path(__file__).parents[1]
PAIR = 2
CONTROLLER = "controller"
OURS, THEIRS = "railbed", "srun python"
WARM_UP, TAIL = 5, 2
"""Steps at the start and at the end of a window that are not counted."""
GOAL, UNSURE = 0.02, 0.1
PEER_PORT = 29411
SEQUENCES = 32
LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.2


class Usage(NamedTuple):
    """The processor time of the lab's processes so far, in seconds."""

    moment: float
    by_process: Mapping[tuple[int, str, str], float]
    """By number, machine and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was measured while one of the two trained."""

    steps: Sequence[float]
    """Seconds of each step."""
    used: Mapping[str, float]
    """Seconds of processor time per step: of the ranks, of the rest on their nodes, and of the controller."""

    @property
    def step(self) -> float:
        """Return the seconds of a step: all of them count, also those during which something else happened."""
        return statistics.fmean(self.steps)


def report_steps(lab: RunningLab, user: User, pairs: int, steps: int) -> None:
    """Measure, and print the step times, the ratios of the pairs, and where processor time goes."""
    machines = namespaces(lab)
    measure: dict[str, Callable[[], Window]] = {
        OURS: lambda: train_with_railbed(user, machines, steps),
        THEIRS: lambda: train_with_srun(lab, user, machines, steps),
    }
    windows: dict[str, list[Window]] = {name: [] for name in measure}
    for number in range(pairs):
        # The order changes from pair to pair, so that a drift does not count for one side.
        for name in sorted(measure, reverse=number % 2 == 0):
            windows[name].append(measure[name]())
    counted = len(windows[OURS][0].steps)
    print(f"steps of `tiny` with {SEQUENCES} sequences on {PAIR} nodes, {pairs} pairs of windows of {counted} steps")
    for name, some in windows.items():
        low, middle, high = statistics.quantiles([1000 * window.step for window in some], n=4)
        print(f"  {name:<12}{middle:8.1f} ms per step; half of the windows between {low:.1f} and {high:.1f} ms")
    report_ratios("step time, mean of a window", [window.step for window in windows[OURS]], windows[THEIRS])
    report_processor_time(windows)


def report_ratios(title: str, ours: Sequence[float], theirs: Sequence[Window]) -> None:
    """Print the ratio of the pairs, with its spread."""
    ratios = sorted(our / their.step for our, their in zip(ours, theirs, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    least, most, confidence = interval_of_median(ratios)
    print(
        f"  {title}, {OURS} / {THEIRS}: {middle:.4f} in the median of the pairs; half of them {low:.3f} to {high:.3f}"
    )
    print(f"    the true median is between {least:.3f} and {most:.3f} with a confidence of {confidence:.0%}")
    verdict = "met" if middle < 1 + GOAL else "missed"
    print(f"  the goal, under {GOAL:.0%} of the step: {verdict} ({middle - 1:+.2%})")


def report_processor_time(windows: Mapping[str, Sequence[Window]]) -> None:
    """Print the processor time per step, and what railbed adds to it."""
    print("  processor time per step, medians of the windows:")
    step = statistics.median(window.step for window in windows[THEIRS])
    for place in windows[OURS][0].used:
        ours, theirs = (statistics.median(window.used[place] for window in windows[name]) for name in (OURS, THEIRS))
        added = f"{1000 * (ours - theirs):+.2f} ms, {(ours - theirs) / step:+.2%} of a step"
        print(f"    {place:<28}{OURS} {1000 * ours:8.2f} ms, {THEIRS} {1000 * theirs:8.2f} ms: {added}")


def interval_of_median(ordered: Sequence[float]) -> tuple[float, float, float]:
    """Return the narrowest interval of values at equal ranks from both ends that has the median in 9 of 10 cases.

    Its confidence, which is the third number, is lower if there are too few values for that.
    """
    count = len(ordered)
    outside = [2 * sum(math.comb(count, below) for below in range(rank + 1)) / 2**count for rank in range(count // 2)]
    rank = max((rank for rank, share in enumerate(outside) if share <= UNSURE), default=0)
    return ordered[rank], ordered[-1 - rank], 1 - outside[rank]


def train_with_railbed(user: User, machines: Mapping[str, str], steps: int) -> Window:
    """Train with railbed, whose records have the times."""
    settings = [f"steps={steps}", "threads=1", f"batch.sequences={SEQUENCES}", "shares=equal"]
    settings += ["evaluation.every=0", "checkpoint.steps=100000", "data.sample=0"]
    changes = [word for setting in settings for word in ("--set", setting)]
    before = set(user.runs)
    words = [*user.program, "train", "tiny", "-c", "slurm", "--transport", "gloo", *changes]

    def records() -> Path | None:
        new = [run for run in user.runs if run not in before]
        return new[0] / "records.jsonl" if new else None

    return train(user, words, {}, machines, steps, records)


def train_with_srun(lab: RunningLab, user: User, machines: Mapping[str, str], steps: int) -> Window:
    """Train with a bare loop, which prints the times."""
    cluster = clusterfile.load(lab.cluster)
    port = cluster.nodes["node1"].ports[0]
    site = clusterfile.load_site(user.folder / "railbed" / "slurm.yaml", name="x", nodes=cluster.nodes)
    words = ["srun", f"-N{PAIR}", f"--ntasks={PAIR}", "--overlap", "--cpu-bind=none", "--mpi=none", f"--chdir={ROOT}"]
    words += [site.training.python, "-m", "tools.srun_peer", "tiny", str(SEQUENCES), str(steps), "1"]
    words += [str(port.address), str(PEER_PORT)]
    variables = {"GLOO_SOCKET_IFNAME": port.netdev, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    return train(user, words, variables, machines, steps, lambda: user.folder / "output.txt")


def train(  # noqa: PLR0917  (a command, and where to look)
    user: User,
    words: Sequence[str],
    variables: Mapping[str, str],
    machines: Mapping[str, str],
    steps: int,
    times: Callable[[], Path | None],
) -> Window:
    """Run a training whose output goes to a file, as in a batch job; measure what its steps take and use."""
    output = user.folder / "output.txt"
    output.unlink(missing_ok=True)
    ends: dict[int, float] = {}
    with user.started("sh", "-c", 'exec "$@" >output.txt 2>&1', "sh", *words, **variables) as process:
        first = await_step(times, WARM_UP, ends, machines)
        last = await_step(times, steps - TAIL, ends, machines)
        if process.wait(LIMIT_SECONDS):
            sys.exit(output.read_text())
    durations = [ends[step] - ends[step - 1] for step in range(WARM_UP + 1, steps - TAIL + 1)]
    step = statistics.fmean(durations)
    spent = {place: seconds * step / (last.moment - first.moment) for place, seconds in difference(first, last).items()}
    return Window(steps=durations, used=spent)


def await_step(
    times: Callable[[], Path | None], wanted: int, ends: dict[int, float], machines: Mapping[str, str]
) -> Usage:
    """Wait until a step has ended, noting the ends of all; return the processor time that was used by then."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        file = times()
        if file and file.exists():
            ends.update(ends_of_steps(file))
        if wanted in ends:
            return usage(machines)
        time.sleep(POLL_SECONDS)
    sys.exit(f"step {wanted} did not end within {LIMIT_SECONDS:g} s")


def ends_of_steps(file: Path) -> Iterator[tuple[int, float]]:
    """Yield the number and end of each step of rank 0, from railbed's records or the bare loop's output."""
    for line in file.read_bytes().splitlines():
        if b'"name":"step_seconds"' not in line and not line.startswith(b'{"step"'):
            continue
        with suppress(ValueError):  # a line that is being written
            record = json.loads(line)
            labels = record.get("labels", {"step": record.get("step"), "rank": 0})
            if labels["rank"] == 0:
                yield labels["step"], record["time"]


def namespaces(lab: RunningLab) -> dict[str, str]:
    """Return the machines of the lab by their network namespaces."""
    names = (CONTROLLER, *clusterfile.load(lab.cluster).nodes)
    return {lab.shell(name, "readlink /proc/self/ns/net").out.strip(): name for name in names}


def usage(machines: Mapping[str, str]) -> Usage:
    """Return the processor time of every process in the lab."""
    used = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):  # a process that has ended meanwhile
            machine = machines.get((folder / "ns/net").readlink().name)
            if machine:
                name = (folder / "comm").read_text().strip()
                tasks = (task / "schedstat" for task in (folder / "task").iterdir())
                used[int(folder.name), machine, name] = sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    return Usage(time.time(), used)


def difference(first: Usage, last: Usage) -> dict[str, float]:
    """Return the seconds of processor time between two moments, by place."""
    used = dict.fromkeys(("a rank", "the rest of its node", "the machine that starts it"), 0.0)
    for process, seconds in last.by_process.items():
        _, machine, name = process
        grown = seconds - first.by_process.get(process, 0.0)
        if machine == CONTROLLER:
            used["the machine that starts it"] += grown
        else:
            used["a rank" if name.startswith("rank") else "the rest of its node"] += grown / PAIR
    return used
