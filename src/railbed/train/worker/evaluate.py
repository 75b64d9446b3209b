"""The loss on the text held out for validation."""

from __future__ import annotations

import torch

from railbed.train.data.sampling import deal, pieces
from railbed.train.worker.step import Stepper, on_device


@torch.no_grad()
def validation_loss(stepper: Stepper) -> float | None:
    """Return the mean loss of the first validation windows, split among all ranks; None without validation text."""
    context = stepper.settings.model.context
    count = min(stepper.settings.evaluation.sequences, stepper.tokens.validation_windows(context))
    if count == 0:
        return None
    tokens, windows = stepper.tokens, range(count)
    total = torch.zeros(1, dtype=torch.float64, device=stepper.device)
    runner = stepper.strategy.runner.eval()
    for part in pieces(deal(count, stepper.shares)[stepper.strategy.collective.rank], stepper.micro_limit):
        batch = tokens.batch(part, context, validation=True)
        total += stepper.strategy.evaluate(*(on_device(tensor, stepper.device) for tensor in batch))
    runner.train()
    stepper.strategy.collective.sum(total)
    return float(total) / tokens.trained(windows, context, validation=True)
