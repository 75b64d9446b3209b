"""Every rank has the whole model; gradients are summed during the backward pass (DDP), or after the backward passes.

After them is for models from a folder. Adapters have few gradients, so there is little to overlap with; and until the
sum begins, a rank can discard its gradients and compute them again with smaller micro-batches, without the others
noticing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from railbed.collective.group import Collective
from railbed.collective.timing import sizes_of
from railbed.train.recipe import Recipe
from railbed.train.spec import TrainSpec
from railbed.train.worker import optimiser as adamw
from railbed.train.worker.io.saver import MODEL, OPTIMISER, State
from railbed.train.worker.models.base import LanguageModel
from railbed.train.worker.parallel.gradients import GradientSum
from railbed.train.worker.parallel.strategy import Strategy

BUCKET_MEGABYTES = 25
MAX_COMPILED_SIZES = 64


class Replicate(Strategy):
    """Identical replicas, which stay identical because every rank applies the same sum of gradients."""

    uses_ddp: ClassVar[bool] = True
    """Whether gradients are summed while the backward pass runs."""

    @classmethod
    def message_sizes(cls, recipe: Recipe) -> list[int]:
        """Return the sizes of DDP's buckets."""
        traffic = recipe.traffic
        total = traffic.gradient_bytes if traffic else 4 * recipe.family.trained_count(recipe.model)
        return sizes_of(total, BUCKET_MEGABYTES << 20)

    def __init__(self, model: LanguageModel, collective: Collective, recipe: Recipe, *, compiled: bool) -> None:
        self._model, self.collective = model, collective
        self._device = next(model.parameters()).device
        self.gradients = GradientSum(collective, recipe.wire)
        self._replica: DistributedDataParallel | None = None
        if compiled:
            self._compile()
        self.overlaps = collective.world > 1 and self.uses_ddp
        if self.overlaps:
            devices = [self._device] if self._device.type == "cuda" else None
            self._replica = replica_of(model, self.gradients, devices)
        self.runner = self._replica or model

    def _compile(self) -> None:
        if self.collective.world == 1:
            self._model.compile(dynamic=False)
            return
        for part in self._model.compiled_parts():
            part.compile(dynamic=False)
        # Shares by speed lead to new sizes of micro-batches; torch's limit of 8 would end compilation.
        torch._dynamo.config.recompile_limit = MAX_COMPILED_SIZES  # noqa: SLF001

    def warm_up(self) -> None:
        """Show DDP the order of the gradients before the first step.

        DDP rearranges its buckets after the first backward pass. With three or more ranks that changes the order of
        additions: a resumed run would differ in the last bit from an uninterrupted one.
        """
        if self._replica is None:
            return
        token = torch.zeros(1, 1, dtype=torch.int64, device=self._device)
        for _ in range(2):
            (self._replica(token, token) * 0.0).backward()
            self._model.zero_grad(set_to_none=True)

    def accumulate(self) -> AbstractContextManager[None]:
        """Return DDP's context without synchronisation."""
        return self._replica.no_sync() if self._replica is not None else nullcontext()

    def divide(self, factor: float) -> None:
        """Divide the summed gradient, which every rank has."""
        adamw.divide(self._model, factor)

    def clip(self, limit: float) -> torch.Tensor:
        """Clip the summed gradient, which every rank has."""
        return adamw.clip(self._model, limit)

    def evaluate(self, *batch: torch.Tensor) -> torch.Tensor:
        """Return the loss of this rank's replica, which needs no other rank."""
        return self._model.loss(*batch)

    def state(self, optimiser: torch.optim.Optimizer, names: Sequence[str]) -> State:
        """Return the whole model and its moments."""
        moments = {
            f"{moment}/{name}": self._model.without_padding(name, tensor)
            for moment, name, tensor in adamw.moments(self._model, optimiser)
        }
        files = {MODEL: self._model.saved_tensors(), OPTIMISER: moments}
        return State(files, optimiser, names, self._device)

    def saves(self, job: TrainSpec) -> bool:
        """Return whether this is the first rank of its node: the replicas are equal, and any node may be lost."""
        return job.local_rank == 0 and bool(job.checkpoints)

    def restore(self, state: State, job: TrainSpec, checkpoint: Path) -> None:
        """Load the state on the rank that has it, or use rank 0's, and broadcast it."""
        source, step = (job.resume.rank, job.resume.step) if job.resume else (0, 0)
        if job.resume and job.rank == source:
            state.load(checkpoint)
        tensors = list(state.files[MODEL].values())
        if step > 0:  # at step 0 there are no moments and speeds yet
            tensors += [*state.files[OPTIMISER].values(), state.paces]
        for tensor in tensors:
            self.collective.broadcast(tensor, source)
        state.share_scale(lambda numbers: self.collective.broadcast(numbers, source))
        state.set_step(step)

    def gather(self) -> LanguageModel | None:
        """Return the replica of rank 0."""
        return self._model if self.collective.rank == 0 else None


def replica_of(
    module: nn.Module, gradients: GradientSum, devices: list[torch.device] | None = None
) -> DistributedDataParallel:
    """Return a module whose backward pass sums the gradients over all ranks."""
    replica = DistributedDataParallel(
        module,
        device_ids=devices,
        bucket_cap_mb=BUCKET_MEGABYTES,
        gradient_as_bucket_view=True,
        init_sync=False,
    )
    gradients.attach(replica)
    return replica


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
