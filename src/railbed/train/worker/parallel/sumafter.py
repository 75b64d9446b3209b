"""Every rank has the same model; the gradients of its trained parameters are summed after the backward passes.

For models from a folder. Adapters have few gradients, so there is little to overlap with; and until the sum begins, a
rank can discard its gradients and compute them again with smaller micro-batches, without the others noticing.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from railbed.train.worker.parallel.replicate import BUCKET_MEGABYTES, Replicate


class SumAfter(Replicate):
    """Replicas without DDP."""

    uses_ddp: ClassVar[bool] = False

    def reduce(self) -> None:
        """Sum the gradients in buckets, which are the same in every step."""
        if self.collective.world == 1:
            return
        buckets = self._buckets()
        sums = [torch.cat([_gradient(parameter).flatten() for parameter in bucket]) for bucket in buckets]
        last = len(sums) - 1
        pending = [self.gradients.start(index, total, last=index == last) for index, total in enumerate(sums)]
        for bucket, done in zip(buckets, pending, strict=True):
            parts = torch.split(done.wait(), [parameter.numel() for parameter in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad = part.view_as(parameter)

    def _buckets(self) -> list[list[torch.nn.Parameter]]:
        buckets: list[list[torch.nn.Parameter]] = [[]]
        room = BUCKET_MEGABYTES << 20
        for parameter in self._model.parameters():
            if not parameter.requires_grad:
                continue
            size = 4 * parameter.numel()
            if buckets[-1] and size > room:
                buckets.append([])
                room = BUCKET_MEGABYTES << 20
            buckets[-1].append(parameter)
            room -= size
        return buckets


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return the gradient of a parameter; zeros if this rank's sequences did not use it."""
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
