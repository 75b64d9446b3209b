"""The order in which the arms of an experiment are measured if one of them changes a switch."""

from __future__ import annotations

from typing import Any

import pytest

from railbed.bench.compare.arms import Contest, Side, answer
from railbed.bench.compare.experiment import Experiment
from railbed.bench.compare.run import ArmChanges, Block, _blocks
from railbed.model.cluster import Cluster
from railbed.model.fix import configure_lines
from railbed.model.record import Finding

STEP = {"test": "iperf3", "pattern": "pair", "direction": "one", "seconds": 1}
ON = {"name": "on", "change": {"configure": ["switch_ecn"]}}
OFF = {"name": "off"}


def experiment(a: dict[str, Any], b: dict[str, Any], repeats: int = 5) -> Experiment:
    comparisons = [{"measure": "bandwidth", "a": STEP, "b": STEP}] * 2
    return Experiment.model_validate({"a": a, "b": b, "repeats": repeats, "comparisons": comparisons})


def contests(question: Experiment) -> list[Contest]:
    return [
        Contest(
            number=number,
            comparison=comparison,
            a=Side(arm=question.a, step=comparison.a),
            b=Side(arm=question.b, step=comparison.b),
            in_blocks=True,
        )
        for number, comparison in enumerate(question.comparisons, 1)
    ]


def order(question: Experiment) -> list[tuple[str, list[tuple[int, int]]]]:
    def turns(block: Block) -> list[tuple[int, int]]:
        return [(contest.number, repeat) for contest, repeat in block.turns]

    return [(block.arm.name, turns(block)) for block in _blocks(question, contests(question))]


@pytest.mark.parametrize(("a", "b"), [(OFF, ON), (ON, OFF)])
def test_the_changed_arm_is_in_force_once_and_the_other_is_measured_before_and_after_it(
    a: dict[str, Any], b: dict[str, Any]
) -> None:
    blocks = order(experiment(a, b, repeats=3))
    assert [name for name, _ in blocks] == ["off", "on", "off"]
    every = [(contest, repeat) for repeat in (1, 2, 3) for contest in (1, 2)]
    assert blocks[1][1] == every
    assert blocks[0][1] + blocks[2][1] == every
    assert all(len(turns) >= 2 for _, turns in blocks)


def test_two_arms_with_changes_are_each_in_force_once() -> None:
    question = experiment({**ON, "name": "first"}, ON)
    assert [name for name, _ in order(question)] == ["first", "on"]
    assert (question.configures, experiment(OFF, {**OFF, "name": "same"}).configures) == (True, False)


def test_only_a_change_of_a_switch_ends_the_turns() -> None:
    cluster = Cluster.model_validate(
        {
            "name": "x",
            "rails": {},
            "nodes": {"n": {"host": "10.0.0.1", "ports": []}},
            "switches": {"s": {"host": "10.0.0.9"}},
        }
    )
    question = experiment(OFF, ON)
    for device, concerned in (("s", True), ("n", False)):
        planned = {"on": [configure_lines(device, "interface Ethernet1/1", "  no shutdown")]}
        changes = ArmChanges(cluster=cluster, facts={}, planned=planned)
        assert changes.concerns_switches(question.b) is concerned
        assert not changes.concerns_switches(question.a)


def test_the_answer_says_that_the_arms_did_not_take_turns() -> None:
    (contest, _) = contests(experiment(OFF, ON))
    for repeat in range(1, 6):
        contest.add(contest.a, repeat, 10 + repeat / 10)
        contest.add(contest.b, repeat, 20 - repeat / 10)
    (finding,) = [record for record in answer(contest) if isinstance(record, Finding)]
    assert "the arms did not take turns" in finding.observed
    assert "on is better" in finding.observed
    assert "is changed once" in finding.why
