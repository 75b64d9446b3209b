"""The head of any model and its loss, for some positions at a time.

The scores of a batch are its largest tensor by far. They are computed in chunks and turned into gradients at once, so
that only the gradients are stored. `loss.py` does the same for a head that is a plain matrix, without autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it

from railbed.train.worker.models.loss import CHUNK_BYTES

Scores = Callable[[torch.Tensor], torch.Tensor]
"""The head: the scores [n, vocabulary] of positions [n, width]."""


def head_loss(
    hidden: torch.Tensor,
    targets: torch.Tensor,
    scores: Scores,
    *,
    vocabulary: int,
    parameters: Sequence[torch.nn.Parameter],
) -> torch.Tensor:
    """Return the sum of the cross-entropies, fp32; `parameters` are those of the head that are trained."""
    chunk = max(1, CHUNK_BYTES // (4 * vocabulary))
    if not torch.is_grad_enabled():
        parts = zip(torch.split(hidden, chunk), torch.split(targets, chunk), strict=True)
        losses = [_cross_entropy(scores(part), wanted) for part, wanted in parts]
        return torch.stack(losses).sum()
    loss: torch.Tensor = _HeadLoss.apply(hidden, targets, scores, chunk, *parameters)  # type: ignore[no-untyped-call]
    return loss


def _cross_entropy(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.float(), targets, reduction="sum")


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 -- torch's own, without a type
        hidden: torch.Tensor,
        targets: torch.Tensor,
        scores: Scores,
        chunk: int,
        *parameters: torch.Tensor,
    ) -> torch.Tensor:
        """Return the loss, and store the gradients of its sum."""
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        own = [torch.zeros_like(parameter) for parameter in parameters]
        for start in range(0, len(hidden), chunk):
            with torch.enable_grad():
                part = hidden[start : start + chunk].detach().requires_grad_()
                loss = _cross_entropy(scores(part), targets[start : start + chunk])
                gradients = torch.autograd.grad(loss, [part, *parameters])
            total += loss.detach()
            hidden_gradient[start : start + chunk] = gradients[0]
            for gradient, more in zip(own, gradients[1:], strict=True):
                gradient.add_(more)
        ctx.save_for_backward(hidden_gradient, *own)
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401 -- see forward
        """Return the stored gradients, scaled in place: they are used once."""
        (scale,) = outputs
        hidden_gradient, *own = (gradient.mul_(scale) for gradient in ctx.saved_tensors)
        return hidden_gradient, None, None, None, *own
