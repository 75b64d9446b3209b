"""Faults of every kind in one run on four nodes: it ends as if nothing had happened.

`make test` has one fault of each kind, in an order that is always the same; `make soak` has twenty random ones.
RAILBED_SEED=N repeats the faults of an earlier soak; the seed and every fault are printed.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.labs import RunningLab
from tests.support.training import (
    Records,
    Training,
    assert_files_agree,
    losses,
    trained,
    training,
    training_site,
)

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("nettrain")]
STEPS_A_FAULT = 10
"""A fault waits neither for four nodes nor for many steps once its share of the steps is made; the rest is spare, since
steps go on while a busy machine starts the program that causes the fault."""
BATCH = 12
ROUNDING = 1e-5
"""Ranks sum in another order than one alone, which makes 2e-7 with this text. A learning rate that is wrong by one part
in ten thousand makes a hundred times as much."""
KINDS = ("kill rank", "stop rank", "freeze", "cut", "blip", "kill", "cut rail")
ON_NODES = ("freeze", "cut", "kill")
SLOW = ("slow", "rail0", "14M")
"""Makes steps long without keeping the processor busy, so that faults come in the middle of them."""


@pytest.fixture(scope="module")
def site(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    return training_site(netns_lab, tmp_path_factory.mktemp("faults"), python=warm_python)


@pytest.fixture(scope="module")
def single(netns_lab: RunningLab, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """One of the nodes."""
    return training_site(netns_lab, tmp_path_factory.mktemp("undisturbed"), nodes=1, python=warm_python)


@pytest.fixture
def lab(site: RunningLab) -> Iterator[RunningLab]:
    """The lab with a slow rail; without faults and with every node up after the test."""
    assert site.fault(*SLOW).code == 0
    yield site
    site.heal()


def test_one_fault_of_each_kind_changes_nothing(lab: RunningLab, single: RunningLab) -> None:
    faults_change_nothing(lab, single, KINDS, steps=200, seed=1)


@pytest.mark.soak
def test_twenty_random_faults_change_nothing(lab: RunningLab, single: RunningLab) -> None:
    seed = int(os.environ.get("RAILBED_SEED", time.time_ns() % 10_000))
    kinds = list(KINDS * 3)
    random.Random(seed).shuffle(kinds)  # noqa: S311
    faults_change_nothing(lab, single, kinds[:20], steps=520, seed=seed)


def faults_change_nothing(lab: RunningLab, single: RunningLab, kinds: Sequence[str], *, steps: int, seed: int) -> None:
    """Train with faults, and compare the losses, the sequences and the files with those of a run without."""
    log(f"seed {seed}")
    chance = random.Random(seed)  # noqa: S311
    options = ["small.yaml", "--set", f"steps={steps}"]
    undisturbed = losses(trained(single, *options, "-c", "cluster.yaml"))
    with training(lab, *options, "-c", "cluster.yaml", "--min-nodes", "2") as run:
        for number, kind in enumerate(kinds):
            # Some come right after the one before; a node that fails three times without good work is left out.
            pause, nodes = (2, 2) if number % 3 == 1 else (chance.randint(8, 16), chance.choice((3, 4, 4)))
            wait_for_steps(run, pause, nodes, latest=STEPS_A_FAULT * (number + 1))
            node = chance.choice(run.nodes)
            log(f"fault {number + 1}: {kind} {node} at step {run.step} on {', '.join(run.nodes)}")
            cause(lab, run, kind, node)
        assert lab.fault("heal", "rail0").code == 0
        assert run.end() == (0 if len(run.nodes) == 4 else 1)
    reported = losses(run.records)
    assert max(abs(loss / undisturbed[step] - 1) for step, loss in reported.items()) < ROUNDING
    assert steps in reported
    assert len(reported) > steps - len(kinds)  # a fault may swallow the last messages of a node
    used = history(generations_of(run.records), steps)
    # Not the counters themselves: pytest takes hours to show how two of this size differ.
    assert [sequence for sequence in range(steps * BATCH) if used[sequence] != 1] == []
    assert len(used) == steps * BATCH
    assert_files_agree(max((lab.folder / "runs").glob("*-train*")), run.records)
    nodes_by_generation = [len(event["data"]["nodes"]) for event in run.records if event.get("name") == "generation"]
    assert 4 in nodes_by_generation[nodes_by_generation.index(3) :], "no node was taken back"


def wait_for_steps(run: Training, steps: int, nodes: int, latest: int) -> None:
    """Wait until that many steps were made on that many nodes, or fewer of both from the latest step on."""

    def is_met(_: object) -> bool:
        if run.step < latest:
            return run.steps >= steps and len(run.nodes) >= nodes
        return run.steps >= 2 and len(run.nodes) >= min(nodes, 3)

    run.until(is_met)


def cause(lab: RunningLab, run: Training, kind: str, node: str) -> None:
    """Cause a fault, wait until the run continues, and heal it."""
    start, before = time.monotonic(), run.generation
    match kind:
        case "kill rank" | "stop rank":
            # Only ranks have such a name, not the fork server they come from; there may be none for a moment.
            number = "KILL" if kind == "kill rank" else "STOP"
            assert (
                lab.run_inside(node, f"timeout 20 sh -c \"until pkill -{number} '^rank'; do sleep 0.1; done\"").code
                == 0
            )
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
    run.until(lambda record: record.get("name") == "restart")
    noticed = time.monotonic() - start
    if kind == "cut rail":  # nobody is left who could go on
        assert lab.fault("heal", "rail0").code == 0
        assert lab.fault(*SLOW).code == 0
    run.until(lambda _: run.generation > before and run.steps > 0)
    log(f"  noticed after {noticed:.1f} s, goes on after {time.monotonic() - start:.1f} s on {', '.join(run.nodes)}")
    if kind in ON_NODES:
        assert lab.fault("heal", node).code == 0


@dataclass
class Generation:
    """What the ranks did from one start to the next."""

    begins: int = 0
    """The step of the checkpoint that it continued from."""
    saved: set[int] = field(default_factory=set)
    reported: dict[int, dict[int, range]] = field(default_factory=dict)
    """The sequences that each rank learned from, by step."""

    def used(self, step: int) -> Counter[int]:
        """Return how often each sequence was learned from.

        A rank that was lost before it reported this step took the same share as in the step before.
        """
        previous = self.reported.get(step - 1, {})
        expected = {rank: range(share.start + BATCH, share.stop + BATCH) for rank, share in previous.items()}
        return Counter(sequence for share in {**expected, **self.reported[step]}.values() for sequence in share)


def generations_of(records: Records) -> list[Generation]:
    generations: list[Generation] = []
    for record in records:
        match record:
            case {"name": "generation"}:
                generations.append(Generation())
            case {"name": "resumed", "data": {"step": step}}:
                generations[-1].begins = step
            case {"name": "checkpoint", "data": {"step": step}}:
                generations[-1].saved.add(step)
            case {"name": "sequences", "value": count, "labels": {"step": step, "rank": rank, "first": first}}:
                generations[-1].reported.setdefault(step, {})[rank] = range(first, first + int(count))
    return generations


def history(generations: Sequence[Generation], steps: int) -> Counter[int]:
    """Return how often the final state learned from each sequence: from checkpoint to checkpoint, to the beginning.

    A rank that was ended between saving a state and reporting it had reported the step before.
    """
    used: Counter[int] = Counter()
    step, number = steps, len(generations) - 1
    while step:
        for done in range(generations[number].begins + 1, step + 1):
            used += generations[number].used(done)
        step = generations[number].begins
        if step:
            saved = [earlier for earlier in range(number) if step in generations[earlier].saved]
            number = max(saved or [earlier for earlier in range(number) if step in generations[earlier].reported])
    return used


def log(words: str) -> None:
    sys.stderr.write(f"{words}\n")
