"""When to save and when to evaluate, and the loss on the text held out for that.

All ranks make the same decisions at the same step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from railbed.train.data.sampling import deal
from railbed.train.recipe import Recipe
from railbed.train.worker.step import Stepper, on_device

REQUESTED_AHEAD = 2
"""Steps until rank 0's request for a checkpoint reaches all ranks: on a GPU the numbers are read a step later."""


@dataclass(slots=True)
class Schedule:
    """The schedule of one rank.

    With error feedback (`bf16-feedback`), only a step that sends all residuals has a state that can be saved, and
    all ranks must agree on these steps in advance.
    """

    settings: Recipe
    request: str = ""
    """File whose appearance requests a checkpoint; it counts once."""
    _since: float = field(default_factory=time.monotonic)
    _due: bool = False
    _requested: set[int] = field(default_factory=set)

    @property
    def _holds_back(self) -> bool:
        return self.settings.wire == "bf16-feedback"

    def wants_checkpoint(self) -> bool:
        """Whether rank 0 requests a checkpoint with this step; if so, restart the timer."""
        seconds = self.settings.checkpoint.seconds
        requested = bool(self.request) and os.path.exists(self.request)  # noqa: PTH110  (at every step: a Path is slow)
        if not requested and (seconds is None or time.monotonic() - self._since < seconds):
            return False
        if requested:
            self.request = ""
        self._since = time.monotonic()
        return True

    def read(self, step: int, *, requested: bool) -> None:
        """Note whether rank 0 requested a checkpoint with a step."""
        if requested:
            self._due = True
            self._requested.add(step + REQUESTED_AHEAD)

    def settles(self, step: int) -> bool:
        """Whether a step sends all residuals, because its state will be saved."""
        return self._holds_back and (step == self.settings.steps or step in self._requested or self._in_turn(step))

    def checkpoint_due(self, step: int) -> bool:
        """Whether to save the state after this step."""
        if self._holds_back:
            return self.settles(step)
        self._due = self._due or self._in_turn(step)
        return self._due

    def note_saving(self) -> None:
        """Note that a state is being saved."""
        self._due = False

    def evaluation_due(self, step: int) -> bool:
        """Whether to measure the validation loss after this step."""
        every = self.settings.evaluation.every
        return every > 0 and (step % every == 0 or step == self.settings.steps)

    def _in_turn(self, step: int) -> bool:
        every = self.settings.checkpoint.steps
        return every is not None and step % every == 0


@torch.no_grad()
def validation_loss(stepper: Stepper) -> float | None:
    """Return the mean loss of the first validation windows, split among all ranks; None without validation text."""
    context = stepper.settings.model.context
    count = min(stepper.settings.evaluation.sequences, stepper.tokens.validation_windows(context))
    if count == 0:
        return None
    tokens, windows = stepper.tokens, range(count)
    runner = stepper.strategy.runner.eval()
    mine = deal(count, stepper.shares)[stepper.strategy.collective.rank]
    total = stepper.micro.compute(mine, lambda micro_batches: _loss(stepper, micro_batches), lambda: None)
    runner.train()
    stepper.strategy.collective.sum(total)
    return float(total) / tokens.count_trained(windows, context, validation=True)


def _loss(stepper: Stepper, micro_batches: Sequence[range]) -> torch.Tensor:
    """Return the sum of the losses of this rank's windows."""
    total = torch.zeros(1, dtype=torch.float64, device=stepper.device)
    for micro in micro_batches:
        batch = stepper.tokens.batch(micro, stepper.settings.model.context, validation=True)
        total += stepper.strategy.evaluate(*(on_device(tensor, stepper.device) for tensor in batch))
    return total
