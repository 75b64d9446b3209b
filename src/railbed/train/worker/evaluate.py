"""The loss on text that is not trained on."""

from __future__ import annotations

import torch

from railbed.train.data.sampling import deal, pieces
from railbed.train.worker.step import Stepper, on_device


@torch.no_grad()
def validation_loss(stepper: Stepper) -> float | None:
    """Return the mean loss over the first validation windows, the work dealt to all ranks; None without any."""
    context = stepper.settings.model.context
    count = min(stepper.settings.evaluation.sequences, stepper.tokens.validation_windows(context))
    if count == 0:
        return None
    total = torch.zeros(1, dtype=torch.float64, device=stepper.device)
    model = stepper.model.eval()
    for part in pieces(deal(count, stepper.shares)[stepper.collective.rank], stepper.micro_limit):
        inputs, targets = stepper.tokens.batch(part, context, validation=True)
        total += model.loss(on_device(inputs, stepper.device), on_device(targets, stepper.device))
    model.train()
    stepper.collective.sum(total)
    return float(total) / (count * context)
