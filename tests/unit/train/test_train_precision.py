"""The number format by device, and loss scaling in fp16: the same decisions on all ranks, exact after a resume."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.support.basemodels import tuning, write_base, write_conversations
from tests.support.smallmodel import recipe, write_tokens
from tests.support.threads import Trainer, together

from railbed.errors import RankFailed
from railbed.train.data.prepare import prepare
from railbed.train.precision import format_of_card
from railbed.train.recipe import Recipe
from railbed.train.worker import hardware as choice
from railbed.train.worker import memory
from railbed.train.worker.hardware import format_on, processor_has
from railbed.train.worker.memory import FIRST, LossScale

pytestmark = pytest.mark.usefixtures("single_thread")
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capability", "expected"),
    [(6.1, "fp32"), (7.0, "fp16"), (7.5, "fp16"), (8.0, "bf16"), (8.9, "bf16"), (9.0, "bf16"), (12.0, "bf16")],
)
def test_the_format_depends_on_the_card(capability: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert format_of_card(capability) == expected
    pair = divmod(round(capability * 10), 10)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: pair)
    assert format_on(torch.device("cuda"), "auto") == expected
    assert format_on(torch.device("cuda"), "fp32") == "fp32"


@pytest.mark.parametrize(
    ("cpuinfo", "bf16", "fp16"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512bw\n", False, False),
        ("processor\t: 0\nflags\t\t: fpu avx512f avx512_bf16\n", True, False),
        ("flags\t\t: amx_bf16 avx512_fp16 amx_tile\n", True, True),
        ("processor\t: 0\nFeatures\t: fp asimd asimdhp bf16\n", True, True),
        ("processor\t: 0\nFeatures\t: fp asimd\n", False, False),
        ("", False, False),
    ],
)
def test_a_processor_computes_in_16_bits_only_if_it_has_instructions_for_them(
    cpuinfo: str, bf16: bool, fp16: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(choice, "CPUINFO", tmp_path / "cpuinfo")
    choice._flags.cache_clear()
    try:
        assert (processor_has(torch.bfloat16), processor_has(torch.float16)) == (bf16, fp16)
        assert format_on(CPU, "bf16") == ("bf16" if bf16 else "fp32")
        assert format_on(CPU, "fp16") == ("fp16" if fp16 else "fp32")
        assert format_on(CPU, "auto") == format_on(CPU, "fp32") == "fp32"
    finally:
        choice._flags.cache_clear()


def test_the_factor_falls_at_once_and_rises_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CALM_STEPS", 3)
    scale = LossScale()
    scale.use()
    norms = (1.0, float("inf"), float("nan"), 1.0, 1.0, 1.0, 1.0)
    history = [(scale.factor, scale.allows_update(norm)) for norm in norms]
    assert [factor / FIRST for factor, _ in history] == [1, 1, 0.5, 0.25, 0.25, 0.25, 0.5]
    assert [allowed for _, allowed in history] == [True, False, False, True, True, True, True]
    assert scale.skipped == 2
    again, third = LossScale(), LossScale()
    again.restore(scale.to_plain())
    third.set_numbers(scale.numbers())
    assert again.numbers() == third.numbers() == scale.numbers()


def test_without_fp16_nothing_is_scaled_skipped_or_saved() -> None:
    scale = LossScale()
    assert scale.allows_update(float("nan"))
    assert (scale.factor, scale.skipped, scale.to_plain()) == (1.0, 0, {})


def test_gradients_that_overflow_at_any_factor_end_the_training() -> None:
    scale = LossScale()
    scale.use()
    assert not any(scale.allows_update(float("inf")) for _ in range(16))
    with pytest.raises(RankFailed, match="not finite in fp16") as caught:
        scale.allows_update(float("inf"))
    assert "precision=fp32" in caught.value.hint


@pytest.mark.parametrize(
    "saved",
    [
        {"factor": "1", "calm": 0, "skipped": 0},
        {"factor": 0.0, "calm": 0, "skipped": 0},
        {"factor": float("nan"), "calm": 0, "skipped": 0},
        {"factor": 2.0, "calm": True, "skipped": 0},
        {"factor": 2.0, "calm": 0, "skipped": -1},
        {"factor": 2.0},
    ],
)
def test_a_damaged_state_is_refused(saved: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="loss"):
        LossScale().restore(saved)


def gradients(trainer: Trainer, factor: float) -> dict[str, torch.Tensor]:
    """Return the gradients of the first batch, computed at a scale and divided by it."""
    trainer.model.zero_grad()
    part = trainer.stepper.part(0)
    batch = trainer.stepper.tokens.batch(part.windows, trainer.stepper.settings.model.context)
    (trainer.model(*batch) * (factor / part.trained / 1024)).backward()  # as in a batch of 200,000 tokens
    named = trainer.model.named_parameters()
    return {name: p.grad.double() * (1024 / factor) for name, p in named if p.grad is not None}


def test_scaling_saves_the_small_gradients(tmp_path: Path) -> None:
    tokens = write_tokens(tmp_path / "tokens")
    settings = Recipe.read(recipe())
    exact = gradients(Trainer.of(settings, tokens), 1.0)
    half = Trainer.of(settings, tokens, compute=torch.float16)
    errors = []
    for factor in (1.0, FIRST):
        computed = gradients(half, factor)
        differences = [float((computed[name] - exact[name]).norm() / exact[name].norm()) for name in exact]
        errors.append(sorted(differences)[len(differences) // 2])
    assert errors[0] > 0.1
    assert errors[1] < 0.01


def test_training_in_fp16_follows_fp32(tmp_path: Path) -> None:
    """The first factor is too large: the first update is skipped, and changes nothing."""
    tokens = write_tokens(tmp_path / "tokens")
    settings = Recipe.read(recipe(optimiser={"warmup_steps": 0}))
    half = Trainer.of(settings, tokens, compute=torch.float16)
    half.stepper.scale.use()
    half.stepper.scale.factor = 2.0**30
    before = {name: tensor.clone() for name, tensor in half.model.saved_tensors().items()}
    half.losses(range(1))
    assert half.stepper.scale.skipped == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in half.model.saved_tensors().items())
    half.stepper.scale.factor = FIRST
    exact = Trainer.of(settings, tokens)
    norms = [trainer.stepper.take(0, wants_checkpoint=False).norm() for trainer in (exact, half)]
    assert norms[1] == pytest.approx(norms[0], rel=0.01)
    expected, losses = exact.losses(range(1, 12)), half.losses(range(1, 12))
    assert half.stepper.scale.skipped == 1
    assert losses == pytest.approx(expected, abs=0.02)
    assert losses[-1] < losses[0] - 0.2


def test_all_ranks_skip_the_update_that_overflowed_on_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank computes in fp16 and overflows in its second step; the other computes in fp32."""
    base = write_base(tmp_path / "base", "llama")
    settings = Recipe.read(tuning(base, [write_conversations(tmp_path / "chats.jsonl")]))
    tokens = prepare(settings, tmp_path / "cache").folder

    def work(trainer: Trainer) -> list[list[float]]:
        trainer.stepper.scale.use()
        plain, numbers = trainer.model.loss, []

        def overflowing(*batch: torch.Tensor) -> torch.Tensor:
            result = plain(*batch)
            result.register_hook(lambda gradient: gradient * 2.0**30)  # type: ignore[no-untyped-call]
            return result

        for step in range(4):
            if trainer.stepper.strategy.collective.rank == 1:
                monkeypatch.setattr(trainer.model, "loss", overflowing if step == 1 else plain)
            numbers.append([*trainer.losses(range(step, step + 1)), *trainer.stepper.scale.numbers()])
        return numbers

    results = together(settings, tokens, (1.0, 1.0), work, computes=(torch.float32, torch.float16))
    (first, numbers), (second, others) = results
    assert numbers == others
    assert [number[2] / FIRST for number in numbers] == [1, 0.5, 0.5, 0.5]
    assert numbers[-1][4] == 1
    ours, theirs = first.model.saved_tensors(), second.model.saved_tensors()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
