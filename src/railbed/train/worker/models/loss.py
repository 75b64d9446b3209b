"""The head and the loss in one, without a table of all scores.

With 50,257 tokens the scores of a batch are the largest tensor by far. On a CPU they are computed for some positions at
a time, and turned into gradients at once, so that only the gradients are stored. On a GPU the compiler fuses the plain
form. A head that is a plain matrix needs no autograd, and nothing is computed twice; any other head is differentiated
in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it

CHUNK_BYTES = 128 << 20
"""Size of the scores that exist at once. Less takes more time: every chunk reads and writes the whole embedding."""


def next_token_loss(
    hidden: torch.Tensor, embedding: torch.Tensor, targets: torch.Tensor, vocabulary: int
) -> torch.Tensor:
    """Return the sum of the cross-entropies, fp32, of positions [n, width] against targets [n]."""
    if hidden.device.type != "cpu" or torch.compiler.is_compiling():
        return _plain(hidden, embedding, targets, vocabulary)
    if torch.is_grad_enabled():
        loss: torch.Tensor = _ChunkedLoss.apply(hidden, embedding, targets, vocabulary)  # type: ignore[no-untyped-call]
        return loss
    parts = zip(torch.split(hidden, _chunk(vocabulary)), torch.split(targets, _chunk(vocabulary)), strict=True)
    return torch.stack([_plain(part, embedding, wanted, vocabulary) for part, wanted in parts]).sum()


def _plain(hidden: torch.Tensor, embedding: torch.Tensor, targets: torch.Tensor, vocabulary: int) -> torch.Tensor:
    scores = F.linear(hidden, embedding.to(hidden.dtype)).float()
    if len(embedding) > vocabulary:
        # Padding rows get no share. Slicing them off would copy all scores in the backward pass.
        columns = torch.arange(len(embedding), device=hidden.device)
        scores = scores.masked_fill(columns >= vocabulary, float("-inf"))
    return F.cross_entropy(scores, targets, reduction="sum")


def _chunk(vocabulary: int) -> int:
    return max(1, CHUNK_BYTES // (4 * vocabulary))


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 -- torch's own, without a type
        hidden: torch.Tensor,
        embedding: torch.Tensor,
        targets: torch.Tensor,
        vocabulary: int,
    ) -> torch.Tensor:
        """Return the loss, and store the gradients of its sum."""
        weight = embedding[:vocabulary].to(hidden.dtype)
        chunk = _chunk(vocabulary)
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros(embedding.shape, dtype=torch.float32, device=hidden.device)
        for start in range(0, len(hidden), chunk):
            part, wanted = hidden[start : start + chunk], targets[start : start + chunk, None]
            logs = torch.log_softmax((part @ weight.T).float(), dim=-1)
            total -= logs.gather(1, wanted).sum()
            gradient = logs.exp_()
            gradient.scatter_add_(1, wanted, torch.full_like(wanted, -1, dtype=gradient.dtype))
            gradient = gradient.to(hidden.dtype)
            torch.mm(gradient, weight, out=hidden_gradient[start : start + chunk])
            if hidden.dtype == torch.float32:
                weight_gradient[:vocabulary].addmm_(gradient.T, part)
            else:
                weight_gradient[:vocabulary] += gradient.T @ part
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401 -- see forward
        """Return the stored gradients, scaled in place: they are used once."""
        hidden_gradient, weight_gradient = ctx.saved_tensors
        (scale,) = outputs
        return hidden_gradient.mul_(scale), weight_gradient.mul_(scale), None, None


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
