"""Twenty random faults in one run on four nodes: it ends as if nothing had happened.

RAILBED_SEED=N repeats the faults of an earlier run; the seed and every fault are printed.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import pytest

from tests.support.labs import RunningLab
from tests.support.training import Records, Training, losses, trained, training, training_lab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("train")]
FAULTS = 20
STEPS = 520
STEPS_A_FAULT = 14
"""A fault that waits for all four nodes comes with three once its share of the steps is made; the rest is spare."""
BATCH = 12
KINDS = ("kill rank", "stop rank", "freeze", "cut", "blip", "kill", "cut rail")
ON_NODES = ("freeze", "cut", "kill")
SLOW = ("slow", "rail0", "24M")
"""Makes steps long without keeping the processor busy, so that faults come in the middle of them."""
NOTICE_SECONDS = 30.0
"""Far more than is promised: a test tells a hang from a slow machine, and the benchmark tells the times."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with training_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


def test_twenty_random_faults_in_one_run_change_nothing(lab: RunningLab) -> None:
    seed = int(os.environ.get("RAILBED_SEED", time.time_ns() % 10_000))
    tell(f"seed {seed}")
    chance = random.Random(seed)  # noqa: S311
    options = ["small.yaml", "--set", f"steps={STEPS}"]
    undisturbed, on_three = (losses(trained(lab, *options, "--ranks", n, "--cluster", "local")) for n in ("1", "3"))
    kinds = list(KINDS * 3)
    chance.shuffle(kinds)
    assert lab.fault(*SLOW).code == 0
    with training(lab, *options, "-c", "cluster.yaml", "--min-nodes", "2") as run:
        for number, kind in enumerate(kinds[:FAULTS]):
            # Some come right after the one before; who fails three times and does no good work between is left out.
            steps, nodes = (2, 2) if number % 3 == 1 else (chance.randint(8, 16), chance.choice((3, 4, 4)))
            until_enough_run(run, steps, nodes, latest=STEPS_A_FAULT * (number + 1))
            node = chance.choice(run.nodes)
            tell(f"fault {number + 1}: {kind} {node} at step {run.step} on {', '.join(run.nodes)}")
            put(lab, run, kind, node)
        assert lab.fault("heal", "rail0").code == 0
        assert run.end() == (0 if len(run.nodes) == 4 else 1)
    told = losses(run.records)
    # Ranks sum in another order than one alone, and how far that carries depends on the text, which is this machine's
    # own: in the middle 6e-6 with one, with another 7e-5 and 1.3e-3 at a single step. So it is measured; twenty
    # restarts add a third. A learning rate that is wrong by one part in ten thousand makes a hundred times as much.
    rounding, found = apart(on_three, undisturbed), apart(told, undisturbed)
    assert median(found) < 5 * median(rounding)
    assert max(found) < 5 * max(rounding)
    assert STEPS in told
    assert len(told) > STEPS - FAULTS  # a fault may swallow the last words of a node
    used = history(generations_of(run.records))
    # Not the counters themselves: pytest takes hours to tell how two of this size differ.
    assert [sequence for sequence in range(STEPS * BATCH) if used[sequence] != 1] == []
    assert len(used) == STEPS * BATCH


def apart(told: Mapping[int, float], others: Mapping[int, float]) -> list[float]:
    """Return by how much of itself each loss differs."""
    return [abs(loss - others[step]) / others[step] for step, loss in told.items()]


def until_enough_run(run: Training, steps: int, nodes: int, latest: int) -> None:
    """Wait until that many steps were made on that many nodes; one may come back too late for the latest step."""
    run.until(lambda _: run.steps >= steps and len(run.nodes) >= (nodes if run.step < latest else min(nodes, 3)))


def put(lab: RunningLab, run: Training, kind: str, node: str) -> None:
    """Put a fault in force, see that the run goes on, and heal it."""
    start, before = time.monotonic(), run.generation
    match kind:
        case "kill rank" | "stop rank":
            # Only ranks have such a name, not the fork server they come from; there may be none for a moment.
            number = "KILL" if kind == "kill rank" else "STOP"
            assert lab.shell(node, f"timeout 20 sh -c \"until pkill -{number} '^rank'; do sleep 0.1; done\"").code == 0
        case "blip":
            made = run.steps
            assert lab.fault("cut", node).code == 0
            assert lab.fault("heal", node).code == 0
            run.until(lambda _: run.steps > made + 2 or run.generation > before)
            return
        case "cut rail":
            assert lab.fault("cut", "rail0").code == 0
        case _:
            assert lab.fault(kind, node).code == 0
    run.until(lambda record: record["name"] == "restart", NOTICE_SECONDS)
    noticed = time.monotonic() - start
    if kind == "cut rail":  # nobody is left who could go on
        assert lab.fault("heal", "rail0").code == 0
        assert lab.fault(*SLOW).code == 0
    run.until(lambda _: run.generation > before and run.steps > 0)
    tell(f"  noticed after {noticed:.1f} s, goes on after {time.monotonic() - start:.1f} s on {', '.join(run.nodes)}")
    if kind in ON_NODES:
        assert lab.fault("heal", node).code == 0


@dataclass
class Generation:
    """What one start of the ranks did."""

    begins: int = 0
    """The step of the state that it went on from."""
    saved: set[int] = field(default_factory=set)
    told: dict[int, dict[int, range]] = field(default_factory=dict)
    """The sequences that each rank learned from, by step."""

    def used(self, step: int) -> Counter[int]:
        """Return how often each sequence was learned from; who was lost before it could tell did as the step before."""
        before = {rank: range(one.start + BATCH, one.stop + BATCH) for rank, one in self.told.get(step - 1, {}).items()}
        return Counter(sequence for one in {**before, **self.told[step]}.values() for sequence in one)


def generations_of(records: Records) -> list[Generation]:
    found: list[Generation] = []
    for record in records:
        match record:
            case {"name": "generation"}:
                found.append(Generation())
            case {"name": "resumed", "data": {"step": step}}:
                found[-1].begins = step
            case {"name": "checkpoint", "data": {"step": step}}:
                found[-1].saved.add(step)
            case {"name": "sequences", "value": count, "labels": {"step": step, "rank": rank, "first": first}}:
                found[-1].told.setdefault(step, {})[rank] = range(first, first + int(count))
    return found


def history(generations: Sequence[Generation]) -> Counter[int]:
    """Return how often the final state learned from each sequence: from state back to state, to the beginning."""
    used: Counter[int] = Counter()
    step, number = STEPS, len(generations) - 1
    while step:
        for one in range(generations[number].begins + 1, step + 1):
            used += generations[number].used(one)
        step = generations[number].begins
        if step:
            number = max(one for one in range(number) if step in generations[one].saved)
    return used


def tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
