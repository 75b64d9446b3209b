"""How the ranks of a job train one model together: everything in a step that depends on which rank has which part.

A strategy decides how the model is wrapped, when ranks communicate, how gradients are clipped, which tensors a rank
saves, and how the saved state reaches ranks whose number may have changed. The step, checkpoints and export only use
this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import nn

from railbed.collective.group import Collective
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.worker.io.saver import State
from railbed.train.worker.models.base import LanguageModel
from railbed.train.worker.parallel.gradients import GradientSum


class Strategy(ABC):
    """One rank's part in training a model."""

    collective: Collective
    runner: nn.Module
    """The module that a step calls for the loss: the model, compiled and wrapped."""
    gradients: GradientSum
    """The communication of a step, and how much of it there was."""
    overlaps: bool
    """Whether a backward pass outside of `accumulate` begins to sum the gradients."""

    @classmethod
    @abstractmethod
    def message_sizes(cls, recipe: Recipe) -> list[int]:
        """Return the sizes in bytes of the sums that a step takes, to choose the fastest engine for them."""

    @abstractmethod
    def __init__(self, model: LanguageModel, collective: Collective, recipe: Recipe, *, compiled: bool) -> None:
        """Wrap the model."""

    @abstractmethod
    def warm_up(self) -> None:
        """Do the work that is needed once before the first step."""

    @abstractmethod
    def accumulate(self) -> AbstractContextManager[None]:
        """Return a context whose backward passes only add to this rank's gradients, without communication."""

    def reduce(self) -> None:  # noqa: B027 -- most do it during that pass
        """Sum the gradients over all ranks, after the last backward pass of a step; unless that pass has done it."""

    @abstractmethod
    def divide(self, factor: float) -> None:
        """Divide this rank's part of the summed gradient by a factor."""

    @abstractmethod
    def clip(self, limit: float) -> torch.Tensor:
        """Scale the gradient of the whole model down to this norm (0: no limit); return its norm before that."""

    @abstractmethod
    def evaluate(self, *batch: torch.Tensor) -> torch.Tensor:
        """Return the sum of the losses, without dropout and gradients."""

    @abstractmethod
    def state(self, optimiser: torch.optim.Optimizer, names: Sequence[str]) -> State:
        """Return the tensors that this rank's checkpoints consist of; `names` are those of all ranks."""

    @abstractmethod
    def saves(self, job: TrainSpec) -> bool:
        """Return whether this rank writes checkpoints."""

    @abstractmethod
    def restore(self, state: State, job: TrainSpec, checkpoint: Path) -> None:
        """Give every rank its part of the state: that of the checkpoint to resume from, or the initial one."""

    @abstractmethod
    def gather(self) -> LanguageModel | None:
        """Return the whole model on rank 0, for a sample and for export; None elsewhere. All ranks call this."""
