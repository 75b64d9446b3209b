"""Estimates the memory that a rank will need. docs/training-metrics.md compares it with measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from railbed.train.models.family import Compute
from railbed.train.recipe import Recipe

CPU_RUNTIME, GPU_RUNTIME = 400 << 20, 800 << 20
"""Memory of torch itself, its threads and caches; on a GPU, of the driver per process."""
CPU_MICRO_TOKENS = 4096
GPU_MICRO_SEQUENCES = 64
GPU_MEMORY_USED = 0.85
"""Fraction of a GPU's memory that is usable: fragmentation takes the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Memory of a rank, in bytes."""

    parameters: int
    """Number of parameters, not bytes."""
    state: int
    """Parameters, those that are not trained included, gradients and moments."""
    activations: int
    runtime: int
    copy: int = 0
    """Main memory for the copy that checkpoints are written from; only the first rank of a node has one."""

    @property
    def total(self) -> int:
        """Return the memory of the first rank of a node."""
        return self.state + self.activations + self.runtime + self.copy

    def of_ranks(self, count: int) -> int:
        """Return the memory of this many ranks on one node."""
        return count * (self.total - self.copy) + self.copy


def memory(recipe: Recipe, *, micro: int, world: int = 1, value_bytes: int = 4, gpu: bool = False) -> MemoryEstimate:
    """Return the estimate for one of `world` ranks with a micro-batch of that many sequences."""
    runtime = GPU_RUNTIME if gpu else CPU_RUNTIME
    if recipe.traffic:
        size = recipe.traffic.gradient_bytes
        return MemoryEstimate(parameters=size // 4, state=2 * size, activations=0, runtime=runtime)
    family, parallelism = recipe.family, parallelism_of(recipe)
    trained = family.trained_count(recipe.model)
    compute = _compute(recipe, value_bytes=value_bytes, gpu=gpu)
    return MemoryEstimate(
        parameters=family.parameter_count(recipe.model),
        state=parallelism.state_bytes(trained, world) + family.frozen_bytes(recipe.model, compute),
        activations=family.activation_bytes(recipe.model, micro * recipe.model.context, compute),
        runtime=runtime,
        copy=0 if gpu else parallelism.saved_bytes(trained, world),
    )


def micro_limit(recipe: Recipe, *, world: int = 1, value_bytes: int = 4, gpu_bytes: int | None = None) -> int:
    """Return the maximum number of sequences that a rank has in memory at once; 0 if its GPU is too small for one."""
    if recipe.batch.micro != "auto":
        return recipe.batch.micro
    if gpu_bytes is None:
        return max(1, CPU_MICRO_TOKENS // recipe.model.context)
    fixed = memory(recipe, micro=0, world=world, value_bytes=value_bytes, gpu=True)
    sequence = memory(recipe, micro=1, world=world, value_bytes=value_bytes, gpu=True).total - fixed.total
    fitting = int(gpu_bytes * GPU_MEMORY_USED - fixed.total) // sequence
    return 1 << (min(fitting, GPU_MICRO_SEQUENCES).bit_length() - 1) if fitting > 0 else 0


def _compute(recipe: Recipe, *, value_bytes: int, gpu: bool) -> Compute:
    return Compute(
        value_bytes=value_bytes,
        gpu=gpu,
        compiled=gpu and recipe.model.compiles if recipe.compile == "auto" else recipe.compile,
        gradient_checkpointing=recipe.gradient_checkpointing,
    )


TRAINED_BYTES = 16
"""Per parameter, in fp32: itself, its gradient, and AdamW's two moments."""


SAVED_BYTES = 12
"""Per parameter in a checkpoint, in fp32: itself and AdamW's two moments."""


class Parallelism(ABC):
    """How the state of a model is distributed: each rank may have all or a part of it."""

    @abstractmethod
    def state_bytes(self, parameters: int, world: int) -> int:
        """Return the memory that parameters, gradients and moments take on one rank."""

    @abstractmethod
    def saved_bytes(self, parameters: int, world: int) -> int:
        """Return the size of a checkpoint on one node, and of the copy in memory that it is written from."""


class Replicas(Parallelism):
    """Every rank has the whole model, and the first rank of each node saves it."""

    def state_bytes(self, parameters: int, world: int) -> int:  # noqa: ARG002 -- the same for any number of ranks
        """Return the bytes of the whole state."""
        return TRAINED_BYTES * parameters

    def saved_bytes(self, parameters: int, world: int) -> int:  # noqa: ARG002
        """Return the bytes of the whole saved state."""
        return SAVED_BYTES * parameters


def parallelism_of(recipe: Recipe) -> Parallelism:  # noqa: ARG001 -- there is one kind so far
    """Return the parallelism of a recipe."""
    return Replicas()
