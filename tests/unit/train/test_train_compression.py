"""Gradients in bf16: what is lost, what is sent later, and that all ranks agree when nothing is held back."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.smallmodel import recipe

from railbed.train.recipe import Recipe
from railbed.train.worker.parallel.gradients import Compressor
from railbed.train.worker.schedule import Schedule

STEPS = 40
VALUE = 1 + 1 / 512
"""Between two values of bf16, nearer to the lower one: rounding loses the same amount at every step."""


def received(compressor: Compressor, *, settle_last: bool = False) -> torch.Tensor:
    """Return the sum of what arrives of the same gradient over many steps."""
    total = torch.zeros(64)
    for step in range(1, STEPS + 1):
        total += compressor.pack(0, torch.full((64,), VALUE), settle=settle_last and step == STEPS).float()
    return total


def test_bf16_loses_a_part_at_every_step_and_feedback_sends_it_later() -> None:
    quantum = 1 / 128  # between neighbours in bf16 from 1 to 2
    exact = STEPS * VALUE
    assert received(Compressor("fp32")).tolist() == pytest.approx([exact] * 64)
    assert (exact - received(Compressor("bf16"))).min() > 9 * quantum
    assert (exact - received(Compressor("bf16-feedback"))).abs().max() <= quantum
    assert received(Compressor("bf16-feedback"), settle_last=True).tolist() == pytest.approx([exact] * 64)


def test_what_travels_is_half_as_long() -> None:
    for form in ("bf16", "bf16-feedback"):
        packed = Compressor(form).pack(0, torch.rand(100), settle=False)
        assert packed.nbytes == 200
    assert Compressor("bf16-feedback").pack(0, torch.rand(100), settle=True).nbytes == 400


def test_buckets_have_residuals_of_their_own() -> None:
    compressor = Compressor("bf16-feedback")
    compressor.pack(0, torch.full((4,), VALUE), settle=False)
    assert compressor.pack(1, torch.zeros(4), settle=True).tolist() == [0] * 4
    assert compressor.pack(0, torch.zeros(4), settle=True).tolist() == [VALUE - 1] * 4
    assert compressor.pack(0, torch.zeros(8), settle=True).tolist() == [0] * 8  # laid out anew


def settled(settings: Recipe, wanted: frozenset[int], lag: int) -> list[int]:
    """Return the steps that a rank settles which reads the numbers of a step so many steps later."""
    schedule = Schedule(settings)
    steps = []
    for step in range(1, settings.steps + 1):
        if schedule.settles(step):
            steps.append(step)
        assert schedule.checkpoint_due(step) == (step in steps)
        if step > lag:
            schedule.read(step - lag, requested=step - lag in wanted)
    return steps


@given(st.frozensets(st.integers(1, 30)), st.none() | st.integers(1, 12))
def test_ranks_that_read_later_settle_the_same_steps(requested: frozenset[int], every: int | None) -> None:
    settings = Recipe.read(recipe(steps=30, wire="bf16-feedback", checkpoint={"steps": every}))
    steps = settled(settings, requested, lag=0)
    assert steps == settled(settings, requested, lag=1)
    assert 30 in steps
    assert {step + 2 for step in requested if step <= 28} <= set(steps)


def test_nothing_settles_where_nothing_is_held_back() -> None:
    for form in ("fp32", "bf16"):
        schedule = Schedule(Recipe.read(recipe(steps=9, wire=form, checkpoint={"steps": 3})))
        assert not any(schedule.settles(step) for step in range(1, 10))
        assert [schedule.checkpoint_due(step) for step in (1, 2, 3, 4)] == [False, False, True, True]
