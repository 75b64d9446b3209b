"""A rank's part of the training state, as named tensors.

An exact continuation needs the parameters, AdamW's moments, the step, the speeds that determine the split, and the
loss scale of fp16. The order of the data, the learning rate and random numbers are functions of seed and step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from railbed.errors import CheckpointDamaged
from railbed.train.state.checkpoints import verified
from railbed.train.worker.io.tensorfile import read_tensors
from railbed.train.worker.lossscale import LossScale
from railbed.train.worker.models.base import copy_matching
from railbed.train.worker.optimiser import set_step

MODEL, OPTIMISER, STATE = "model.safetensors", "optimiser.safetensors", "state.json"


class State:
    """Tensors that are saved and restored in place."""

    def __init__(
        self,
        files: Mapping[str, Mapping[str, torch.Tensor]],
        optimiser: torch.optim.Optimizer,
        names: Sequence[str],
        device: torch.device,
    ) -> None:
        self.files = files
        """The tensors of each file of a checkpoint."""
        self.names = names
        self.paces = torch.zeros(len(names), dtype=torch.float64, device=device)
        """Seconds per sequence of each rank, which determine the split (`Split.paces`); 0: not measured."""
        self.scale = LossScale()
        self.compute = torch.float32
        """The type that rank 0 computes in: adapters of a quantised model fit weights that were rounded from it."""
        self._optimiser = optimiser
        set_step(optimiser, 0)

    def load(self, path: Path) -> None:
        """Load a checkpoint; raise CheckpointDamaged if it is incomplete, damaged or of another model."""
        verified(path)
        for file, tensors in self.files.items():
            try:
                copy_matching(tensors, read_tensors(path / file)[0])
            except CheckpointDamaged as error:
                raise CheckpointDamaged(f"checkpoint {path}: {error.message}") from None
        try:
            saved = json.loads((path / STATE).read_bytes())
            paces = [float(saved.get("paces", {}).get(name, 0.0)) for name in self.names]
            self.scale.restore(saved.get("loss_scale", {}))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            raise CheckpointDamaged(f"checkpoint {path}: {STATE} is damaged") from None
        self.paces.copy_(torch.tensor(paces, dtype=torch.float64))

    def share_scale(self, broadcast: Callable[[torch.Tensor], None]) -> None:
        """Continue with the loss scale of the rank that loaded the state."""
        numbers = torch.tensor(self.scale.numbers(), dtype=torch.float64, device=self.paces.device)
        broadcast(numbers)
        self.scale.set_numbers(numbers.tolist())

    def set_step(self, step: int) -> None:
        """Set the number of steps that training has taken; the optimiser has not taken those that were skipped."""
        set_step(self._optimiser, step - self.scale.skipped)
