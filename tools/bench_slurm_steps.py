"""The second half of `bench_slurm`: what a step costs with `railbed train`, and with plain `srun python`.

Both train at the same time on the same nodes, but only one of them runs at any moment: everything that belongs to
the other is stopped (SIGSTOP), and every two seconds they change places. A window of one is compared with the windows
of the other before and after it, which met the same machine: from minute to minute it varies by more than railbed
costs. Rank 0 notes the time at the end of each step, in both in the same way; steps that a change interrupts do not
count. The kernel's account of every process in the lab shows what else runs: on the nodes beside the ranks, and where
railbed itself runs.
"""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.labs import RunningLab
from tests.support.slurm import User

from railbed import clusterfile

ROOT = Path(__file__).parents[1]
PAIR = 2
CONTROLLER = "controller"
OURS, THEIRS = "railbed", "srun python"
RANK, BESIDE, START = "a rank", "the rest of its node", "the machine that starts it"
SLURM = ("slurm", "munge", "sshd")
"""Programs that serve both, by the beginning of their names."""
WARM_UP = 5
GOAL, UNSURE = 0.02, 0.1
PEER_PORT = 29411
SEQUENCES = 20
"""Steps of a third of a second, several in a window: the shortest that are realistic."""
WINDOW_SECONDS = 2.0
"""An agent, a rank or a reader that is silent for four seconds counts as lost: so long nothing may stand still."""
APART_SECONDS, CATCH_UP_SECONDS = 1.2, 0.2
LIMIT_SECONDS = 120.0
POLL_SECONDS = 0.2
FEWEST = 4
MANY_STEPS = 1_000_000
Usage = dict[tuple[int, str, str], float]
"""Processor time in seconds of each process in the lab: by number, machine and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was measured while one of the two ran."""

    start: float
    end: float
    used: Mapping[str, float]
    """Seconds of processor time: of a rank, of the rest of its node, and of the controller."""


@dataclass(slots=True, kw_only=True)
class Training:
    """One of the two."""

    times: Callable[[], Path | None]
    """Returns the file with the times of its steps, once there is one."""
    on_nodes: list[int] = field(default_factory=list)
    on_starter: list[int] = field(default_factory=list)
    """Its processes: on the nodes, and on the machine that started it."""
    windows: list[Window] = field(default_factory=list)

    def send(self, number: signal.Signals, *, nodes: bool = True, starter: bool = True) -> None:
        """Stop, continue or end what belongs to it, on the nodes, on the machine that started it, or on both."""
        for process in (*(self.on_nodes if nodes else ()), *(self.on_starter if starter else ())):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def ends(self) -> dict[int, float]:
        """Return when each step has ended so far."""
        file = self.times()
        return dict(ends_of_steps(file)) if file and file.exists() else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a step takes and uses in one window."""

    seconds: float
    used: Mapping[str, float]

    @property
    def everything(self) -> float:
        """Return the processor time of a step: of all ranks, on their nodes, and where the training was started."""
        return PAIR * (self.used[RANK] + self.used[BESIDE]) + self.used[START]


def report_steps(lab: RunningLab, user: User, windows: int) -> None:
    """Measure, and print the step times, the ratios of the pairs, and where processor time goes."""
    machines = namespaces(lab)
    with ExitStack() as stack:
        both = {
            OURS: stack.enter_context(start_training(user, machines, with_railbed(user))),
            THEIRS: stack.enter_context(start_training(user, machines, with_srun(lab, user))),
        }
        for apart in (False, True):
            alternate(both, machines, windows, apart=apart)
            report({name: costs_of(training) for name, training in both.items()}, apart=apart)


def report(costs: Mapping[str, Sequence[Cost | None]], *, apart: bool) -> None:
    """Print the costs of both, and compare them."""
    compared = list(neighbours(costs[OURS], costs[THEIRS]))
    if len(compared) < FEWEST:
        sys.exit(f"only {len(compared)} windows had complete steps: the machine is too busy")
    where = "nodes alone, the machine that starts them apart" if apart else "everything on the same cores"
    print(f"steps of `tiny` with {SEQUENCES} sequences on {PAIR} nodes, {where}, {len(compared)} windows")
    of_each = dict(zip((OURS, THEIRS), zip(*compared, strict=True), strict=True))
    for name, some in of_each.items():
        low, middle, high = statistics.quantiles([1000 * cost.seconds for cost in some], n=4)
        print(f"  {name:<12}{middle:8.1f} ms per step; half of the windows between {low:.1f} and {high:.1f} ms")
    report_ratios("time", of_each, lambda cost: cost.seconds)
    report_ratios("processor time of a rank", of_each, lambda cost: cost.used[RANK])
    if not apart:
        report_ratios("processor time of everything", of_each, lambda cost: cost.everything)
        report_processor_time(of_each)


def report_ratios(title: str, costs: Mapping[str, Sequence[Cost]], value: Callable[[Cost], float]) -> None:
    """Print the ratio of the pairs, with its spread."""
    ratios = sorted(value(our) / value(their) for our, their in zip(costs[OURS], costs[THEIRS], strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    least, most, confidence = interval_of_median(ratios)
    verdict = "met" if middle < 1 + GOAL else "missed"
    print(f"  {title}: {OURS} / {THEIRS} {middle:.4f}, the median of the windows; half of them {low:.3f} to {high:.3f}")
    print(f"    with a confidence of {confidence:.0%}, the true median is between {least:.4f} and {most:.4f}")
    print(f"    the goal, under {GOAL:.0%} of the step: {verdict} ({middle - 1:+.2%})")


def report_processor_time(costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print the processor time per step, and what railbed adds to it."""
    print("  processor time per step, means of the windows:")
    step = statistics.fmean(cost.seconds for cost in costs[THEIRS])
    for place in (RANK, BESIDE, START):
        ours, theirs = (statistics.fmean(cost.used[place] for cost in costs[name]) for name in (OURS, THEIRS))
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


def alternate(both: Mapping[str, Training], machines: Mapping[str, str], windows: int, *, apart: bool) -> None:
    """Let them run in turns, ours once more than theirs.

    `apart` is as if the machine that starts a training had cores of its own: what belongs to a training there stands
    still in its window, and catches up afterwards.
    """
    for training in both.values():
        training.send(signal.SIGSTOP)
        training.windows.clear()
    for number in range(2 * windows + 1):
        training = both[THEIRS if number % 2 else OURS]
        before, start = usage(machines), time.time()
        training.send(signal.SIGCONT, starter=not apart)
        time.sleep(APART_SECONDS if apart else WINDOW_SECONDS)
        training.send(signal.SIGSTOP)
        end, after = time.time(), usage(machines)
        training.windows.append(Window(start=start, end=end, used=difference(before, after)))
        if apart:
            training.send(signal.SIGCONT, nodes=False)
            time.sleep(CATCH_UP_SECONDS)
            training.send(signal.SIGSTOP)


def neighbours(ours: Sequence[Cost | None], theirs: Sequence[Cost | None]) -> Iterator[tuple[Cost, Cost]]:
    """Yield each of their windows with the mean of ours before and after it, so that a drift counts for neither."""
    for before, their, after in zip(ours, theirs, ours[1:], strict=False):
        if before and their and after:
            used = {place: (before.used[place] + after.used[place]) / 2 for place in before.used}
            yield Cost(seconds=(before.seconds + after.seconds) / 2, used=used), their


def costs_of(training: Training) -> list[Cost | None]:
    """Return what a step took in each window: the mean of those that lie in it; None if there is none."""
    ends = training.ends()
    costs: list[Cost | None] = []
    for window in training.windows:
        steps = [
            ends[step] - ends[step - 1]
            for step in ends
            if step - 1 in ends and ends[step - 1] >= window.start and ends[step] <= window.end
        ]
        seconds = statistics.fmean(steps) if steps else 0.0
        share = seconds / (window.end - window.start)
        used = {place: share * total for place, total in window.used.items()}
        costs.append(Cost(seconds=seconds, used=used) if steps else None)
    return costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a training is started, and where the times of its steps are."""

    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    output: str
    times: Callable[[], Path | None]


def with_railbed(user: User) -> Start:
    """Train with railbed, whose records have the times."""
    settings = [f"steps={MANY_STEPS}", "threads=1", f"batch.sequences={SEQUENCES}", "shares=equal"]
    settings += ["evaluation.every=0", f"checkpoint.steps={MANY_STEPS}"]
    changes = [word for setting in settings for word in ("--set", setting)]
    before = set(user.runs)

    def records() -> Path | None:
        new = [run for run in user.runs if run not in before]
        return new[0] / "records.jsonl" if new else None

    words = [*user.program, "train", "tiny", "-c", "slurm", "--transport", "gloo", *changes]
    return Start(words=words, output="railbed.txt", times=records)


def with_srun(lab: RunningLab, user: User) -> Start:
    """Train with a bare loop, which prints the times."""
    cluster = clusterfile.load(lab.cluster)
    port = cluster.nodes["node1"].ports[0]
    site = clusterfile.load_site(user.folder / "railbed" / "slurm.yaml", name="x", nodes=cluster.nodes)
    words = ["srun", f"-N{PAIR}", f"--ntasks={PAIR}", "--overlap", "--cpu-bind=none", "--mpi=none", f"--chdir={ROOT}"]
    words += [site.training.python, "-m", "tools.srun_peer", "tiny", str(SEQUENCES), str(MANY_STEPS), "1"]
    words += [str(port.address), str(PEER_PORT)]
    variables = {"GLOO_SOCKET_IFNAME": port.netdev, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    return Start(words=words, variables=variables, output="peer.txt", times=lambda: user.folder / "peer.txt")


@contextmanager
def start_training(user: User, machines: Mapping[str, str], start: Start) -> Iterator[Training]:
    """Start a training whose output goes to a file, as in a batch job, and yield it when it takes steps."""
    there = {process for process, _, _ in usage(machines)}
    script = f'exec "$@" >{start.output} 2>&1'
    with user.started("sh", "-c", script, "sh", *start.words, **start.variables) as process:
        training = Training(times=start.times)
        await_steps(training, process, user.folder / start.output)
        new = [own for own in usage(machines) if own[0] not in there and not own[2].startswith(SLURM)]
        training.on_nodes = [number for number, machine, _ in new if machine != CONTROLLER]
        training.on_starter = [number for number, machine, _ in new if machine == CONTROLLER]
        try:
            yield training
        finally:
            training.send(signal.SIGCONT)
            training.send(signal.SIGTERM, nodes=False)


def await_steps(training: Training, process: subprocess.Popen[bytes], output: Path) -> None:
    """Wait until the first steps have ended."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while WARM_UP not in training.ends():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(output.read_text())
        time.sleep(POLL_SECONDS)


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
    used: Usage = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):  # a process that has ended meanwhile
            machine = machines.get((folder / "ns/net").readlink().name)
            if machine:
                name = (folder / "comm").read_text().strip()
                tasks = (task / "schedstat" for task in (folder / "task").iterdir())
                used[int(folder.name), machine, name] = sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    return used


def difference(before: Usage, after: Usage) -> dict[str, float]:
    """Return the seconds of processor time between two moments, by place."""
    used = dict.fromkeys((RANK, BESIDE, START), 0.0)
    for process, seconds in after.items():
        _, machine, name = process
        grown = seconds - before.get(process, 0.0)
        if machine == CONTROLLER:
            used[START] += grown
        else:
            used[RANK if name.startswith("rank") else BESIDE] += grown / PAIR
    return used
