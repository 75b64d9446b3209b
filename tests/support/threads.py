"""Ranks as threads of this process: the same steps as in processes, without loading the libraries in each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from railbed.collective.group import SingleRank
from railbed.train.recipe import Recipe
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.corpus import open_tokens
from railbed.train.worker.memory import MicroBatches
from railbed.train.worker.models.base import BuildOptions, LanguageModel, build_model
from railbed.train.worker.parallel.choose import strategy_of
from railbed.train.worker.step import Stepper

T = TypeVar("T")
WAIT_SECONDS = 120.0


class Meeting:
    """Where the threads of a group meet to add up their tensors."""

    def __init__(self, world: int) -> None:
        self.barrier = threading.Barrier(world, timeout=WAIT_SECONDS)
        self.tensors: list[torch.Tensor | None] = [None] * world

    def sum(self, rank: int, tensor: torch.Tensor) -> None:
        self.tensors[rank] = tensor.clone()
        self.barrier.wait()
        parts = [part for part in self.tensors if part is not None]
        tensor.copy_(torch.stack(parts).sum(0))
        self.barrier.wait()


class ThreadRank(SingleRank):
    """A rank in a group of threads."""

    def __init__(self, meeting: Meeting, rank: int, world: int) -> None:
        self.meeting, self.rank, self.world = meeting, rank, world

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        self.meeting.sum(self.rank, tensor)
        return super().reduce_bucket(tensor)

    def sum(self, tensor: torch.Tensor) -> None:
        self.meeting.sum(self.rank, tensor)


@dataclass
class Trainer:
    """One rank: its model, and the steps it takes."""

    model: LanguageModel
    stepper: Stepper
    optimiser: torch.optim.Optimizer

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        tokens: Path,
        collective: SingleRank | None = None,
        shares: Sequence[float] = (1.0,),
        compute: torch.dtype = torch.float32,
    ) -> Trainer:
        device = torch.device("cpu")
        corpus = open_tokens(tokens)
        recipe = recipe.for_vocabulary(corpus.vocabulary)
        options = BuildOptions(device=device, compute=compute, gradient_checkpointing=recipe.gradient_checkpointing)
        model = build_model(recipe, options)
        model.initialise(recipe.seed)
        optimiser = adamw.make(model, recipe.optimiser)
        strategy = strategy_of(recipe)(model, collective or SingleRank(), recipe, compiled=False)
        micro = recipe.batch.micro
        assert micro != "auto"
        stepper = Stepper(
            settings=recipe,
            strategy=strategy,
            tokens=corpus,
            optimiser=optimiser,
            device=device,
            shares=shares,
            micro=MicroBatches(micro),
        )
        return cls(model, stepper, optimiser)

    def losses(self, steps: range) -> list[float]:
        return [self.stepper.take(step, wants_checkpoint=False).sums()[0] for step in steps]


def together(
    recipe: Recipe,
    tokens: Path,
    shares: Sequence[float],
    work: Callable[[Trainer], T],
    computes: Sequence[torch.dtype] = (),
) -> list[tuple[Trainer, T]]:
    """Do the same with every rank of a group, one thread for each; each may compute in another type."""
    meeting = Meeting(len(shares))
    ranks = [ThreadRank(meeting, rank, len(shares)) for rank in range(len(shares))]
    types = computes or [torch.float32] * len(shares)
    trainers = [Trainer.of(recipe, tokens, *rank) for rank in zip(ranks, [shares] * len(ranks), types, strict=True)]
    with ThreadPoolExecutor(len(shares)) as pool:
        return list(zip(trainers, pool.map(work, trainers), strict=True))
