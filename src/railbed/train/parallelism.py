"""The memory and disk space that the parallelism of a recipe needs. `worker/parallel/` has its torch side."""

from __future__ import annotations

from abc import ABC, abstractmethod

from railbed.train.recipe import Recipe

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
