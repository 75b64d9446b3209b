"""A rank that runs out of memory takes the same step with smaller micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.support.basemodels import tuning, write_base, write_conversations
from tests.support.smallmodel import recipe, write_tokens
from tests.support.threads import Trainer, together

from railbed.model import events
from railbed.train.data.prepare import prepare
from railbed.train.progress.records import records_of
from railbed.train.recipe import Recipe
from railbed.train.worker.memory import MicroBatches, is_out_of_memory, savings
from railbed.train.worker.schedule import validation_loss

pytestmark = pytest.mark.usefixtures("single_thread")


def limit_memory(trainer: Trainer, patch: pytest.MonkeyPatch, forward: int, backward: int) -> list[tuple[int, int]]:
    """Let a rank's model fail with more sequences than these, as torch does; return the list of what it reports."""
    plain = trainer.model.loss

    def loss(*batch: torch.Tensor) -> torch.Tensor:
        if len(batch[0]) > forward:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")
        result = plain(*batch)
        if len(batch[0]) > backward and result.requires_grad:
            result.register_hook(fail)  # type: ignore[no-untyped-call]
        return result

    def fail(_: torch.Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    shortages: list[tuple[int, int]] = []
    patch.setattr(trainer.model, "loss", loss)
    limit = trainer.stepper.micro.limit
    trainer.stepper.micro = MicroBatches(limit, report=lambda *numbers: shortages.append(numbers))
    return shortages


def parameters(trainer: Trainer) -> dict[str, torch.Tensor]:
    return trainer.model.saved_tensors()


def test_the_step_is_that_of_smaller_micro_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails in the second of its micro-batches, when there are gradients already."""
    tokens = write_tokens(tmp_path / "tokens")
    small, short = (Trainer.of(Recipe.read(recipe(batch={"micro": micro})), tokens) for micro in (1, 6))
    shortages = limit_memory(short, monkeypatch, forward=4, backward=2)
    assert short.losses(range(3)) == small.losses(range(3))
    assert all(torch.equal(tensor, parameters(small)[name]) for name, tensor in parameters(short).items())
    assert shortages == [(6, 3), (3, 1)]


def test_gradients_of_a_failed_attempt_are_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = write_tokens(tmp_path / "tokens")
    small, short = (Trainer.of(Recipe.read(recipe(batch={"micro": micro})), tokens) for micro in (1, 3))
    calls: list[int] = []
    computed = short.model.loss

    def loss(*batch: torch.Tensor) -> torch.Tensor:
        calls.append(len(batch[0]))
        if len(calls) == 3:
            raise MemoryError
        return computed(*batch)

    monkeypatch.setattr(short.model, "loss", loss)
    assert short.losses(range(1)) == small.losses(range(1))
    assert calls == [3, 3, 3] + [1] * 12
    assert all(torch.equal(tensor, parameters(small)[name]) for name, tensor in parameters(short).items())


def test_a_rank_with_little_memory_among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_base(tmp_path / "base", "llama")
    plain = tuning(base, [write_conversations(tmp_path / "chats.jsonl")], batch={"micro": 4})
    wanted = Recipe.read(plain)
    tokens = prepare(wanted, tmp_path / "cache").folder
    expected = Trainer.of(wanted, tokens).losses(range(3))
    reports: dict[int, list[tuple[int, int]]] = {}

    def work(trainer: Trainer) -> list[float]:
        rank = trainer.stepper.strategy.collective.rank
        reports[rank] = limit_memory(trainer, monkeypatch, 4, 1) if rank == 1 else []
        return trainer.losses(range(3))

    for _, losses in together(wanted, tokens, (1.0, 1.0), work):
        assert losses == pytest.approx(expected, abs=2e-5)
    assert reports[1] in ([(3, 1)], [(4, 2), (2, 1)])


def test_the_validation_loss_needs_less_memory_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = write_tokens(tmp_path / "tokens")
    plain, short = (Trainer.of(Recipe.read(recipe(batch={"micro": 6})), tokens) for _ in range(2))
    shortages = limit_memory(short, monkeypatch, forward=2, backward=2)
    assert validation_loss(short.stepper) == pytest.approx(validation_loss(plain.stepper), rel=1e-6)
    assert shortages == [(4, 2)]


def test_one_sequence_that_does_not_fit_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer.of(Recipe.read(recipe(batch={"micro": 2})), write_tokens(tmp_path / "tokens"))
    shortages = limit_memory(trainer, monkeypatch, forward=0, backward=0)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        trainer.losses(range(1))
    assert shortages == [(2, 1)]


def test_other_errors_are_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer.of(Recipe.read(recipe()), write_tokens(tmp_path / "tokens"))

    def loss(*_: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(trainer.model, "loss", loss)
    with pytest.raises(RuntimeError, match="shapes"):
        trainer.losses(range(1))


def test_the_torch_of_this_machine_reports_it() -> None:
    """Nobody has four petabytes."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50, dtype=torch.float32)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you"
            ),
            True,
        ),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:88] data. DefaultCPUAllocator: not enough memory: you tried"),
            True,
        ),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), True),
        (MemoryError(), True),
        (RuntimeError("Connection closed by peer"), False),
        (RuntimeError("there is not enough memory bandwidth"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_how_torch_its_libraries_and_python_report_it(error: Exception, *, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_the_advice_fits_the_recipe(tmp_path: Path) -> None:
    plain = Recipe.read(recipe(gradient_checkpointing=True))
    assert savings(plain) == "use shorter sequences (--set model.context=8), or a node with more memory"
    lora = Recipe.read(tuning(tmp_path, []))
    assert savings(lora) == (
        "use --set gradient_checkpointing=true, shorter sequences (--set model.context=48), "
        "4 bits (--set model.quantisation=nf4), or a node with more memory"
    )
    assert "adapters (--set model.tuning=lora)" in savings(Recipe.read(tuning(tmp_path, [], model={"tuning": "full"})))


def test_it_is_a_record_of_its_own() -> None:
    message = {"kind": "micro_batch", "rank": 1, "time": 1.0, "step": 3, "sequences": 2, "sentence": "cpu …"}
    (record,) = records_of("node2", 1, message)
    assert isinstance(record, events.MicroBatchHalved)
    assert (record.subject, record.message, record.step, record.sequences) == ("node2/rank1", "cpu …", 3, 2)
