"""The loss on the text held out for validation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from railbed.train.data.sampling import deal
from railbed.train.worker.step import Stepper, on_device


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
    return float(total) / tokens.trained(windows, context, validation=True)


def _loss(stepper: Stepper, micro_batches: Sequence[range]) -> torch.Tensor:
    """Return the sum of the losses of this rank's windows."""
    total = torch.zeros(1, dtype=torch.float64, device=stepper.device)
    for micro in micro_batches:
        batch = stepper.tokens.batch(micro, stepper.settings.model.context, validation=True)
        total += stepper.strategy.evaluate(*(on_device(tensor, stepper.device) for tensor in batch))
    return total
