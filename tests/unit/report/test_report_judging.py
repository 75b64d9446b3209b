"""Whether a number changed between two runs: the decision is the same in both directions and at every scale."""

from __future__ import annotations

import random
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railbed.model.statistics import median
from railbed.report.compare.comparison import FEW, SAME, SCATTERED, blocks, distance, factor, judge

finite = st.floats(allow_nan=False, allow_infinity=False)
samples = st.lists(finite, min_size=1, max_size=12)
positive = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)


@given(samples, samples)
def test_whatever_is_measured_is_judged(before: list[float], after: list[float]) -> None:
    judged = judge(before, after)
    assert (judged.outcome == "unclear") == bool(judged.why)
    assert distance(median(before), median(after)) >= 0


@given(positive, positive)
def test_it_is_the_same_in_both_directions(before: list[float], after: list[float]) -> None:
    there, back = judge(before, after), judge(after, before)
    assert there.outcome == back.outcome
    assert there.reach == pytest.approx(back.reach) if there.reach is not None else back.reach is None


@given(positive, positive)
def test_what_is_called_unchanged_did_not_move_far(before: list[float], after: list[float]) -> None:
    if judge(before, after).outcome == "unchanged":
        assert distance(median(before), median(after)) <= log(1 + SAME) + 1e-9


@given(positive, positive)
def test_fewer_than_three_never_tell_a_change(before: list[float], after: list[float]) -> None:
    assert judge(before[:2], after).outcome != "changed"
    assert judge(before, after[:2]).outcome != "changed"


@pytest.mark.parametrize(
    ("before", "after", "outcome", "why"),
    [
        ([10, 10.1, 9.9], [8, 8.1, 7.9], "changed", ""),
        ([10, 10.1, 9.9], [10.05, 10.1, 9.95], "unchanged", ""),
        ([10, 14, 6], [8, 12, 5], "unclear", SCATTERED),
        ([1.0, 1.1, 3.2], [2.88, 1.2, 9.4], "unclear", SCATTERED),
        ([10], [20], "unclear", FEW),
        ([10, 10], [20, 20, 20], "unclear", FEW),
        ([10], [10], "unchanged", ""),
        ([0, 0, 0], [2, 2, 2], "changed", ""),
        ([0, 0, 0], [0, 0, 0], "unchanged", ""),
        ([-1, 0, 1], [9, 10, 11], "changed", ""),
        ([3, 3, 3], [3.1, 3.1, 3.1], "unchanged", ""),
    ],
)
def test_judgements(before: list[float], after: list[float], outcome: str, why: str) -> None:
    judged = judge(before, after)
    assert (judged.outcome, judged.why) == (outcome, why)


def test_of_a_hundred_numbers_that_did_not_change_about_one_looks_changed() -> None:
    chance = random.Random(5)  # noqa: S311

    def repeats() -> list[float]:
        return [chance.lognormvariate(0, 0.3) for _ in range(5)]

    wrong = sum(judge(repeats(), repeats()).outcome == "changed" for _ in range(1000))
    assert wrong <= 20


def test_steps_that_hang_together_are_no_repeats() -> None:
    """A slow drift is alike in steps next to each other: two runs with the same drift at other times did not change."""
    chance = random.Random(3)  # noqa: S311

    def drifting() -> list[float]:
        values, at = [], 0.0
        for _ in range(400):
            at = 0.99 * at + chance.gauss(0, 0.03)
            values.append(10 * 2.0**at)
        return values

    pairs = [(drifting(), drifting()) for _ in range(60)]
    as_repeats = sum(judge(*pair).outcome == "changed" for pair in pairs)
    as_steps = sum(judge(blocks(first), blocks(second)).outcome == "changed" for first, second in pairs)
    assert as_steps < as_repeats / 2


@given(st.lists(finite, max_size=60))
def test_blocks_take_every_step_once(values: list[float]) -> None:
    assert len(blocks(values)) == min(len(values), 10)


@pytest.mark.parametrize(
    ("before", "after", "times"), [(2, 4, 2.0), (4, 2, 0.5), (-2, -4, 2.0), (0, 1, None), (1, 0, None), (-1, 1, None)]
)
def test_factors(before: float, after: float, times: float | None) -> None:
    assert factor(before, after) == times


def test_what_both_runs_do_from_step_to_step_is_not_noise() -> None:
    falling = [10 / at for at in range(1, 41)]
    lower = [0.8 * value for value in falling]
    assert judge(blocks(falling), blocks(lower)).outcome == "unclear"
    assert judge(blocks(falling), blocks(lower), paired=True).outcome == "changed"
    alike = [value * (1.001 if at % 2 else 0.999) for at, value in enumerate(falling)]
    assert judge(blocks(falling), blocks(alike), paired=True).outcome == "unchanged"
