"""What a rank does when its memory is full: it computes with half as many sequences at a time.

The gradients of a step do not depend on how its sequences are cut into micro-batches. So the rank discards what it has
of the step and computes it again, while the others wait for it as for any slow rank.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from railbed.train.data.sampling import pieces
from railbed.train.recipe import Recipe

SIGNS = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
    "out of memory",
    "_STATUS_ALLOC_FAILED",
)
"""How torch and its libraries word it in a plain RuntimeError: on each kind of processor, in C++, and inside CUDA."""
T = TypeVar("T")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that the memory of the device or of the machine is full."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def savings(recipe: Recipe) -> str:
    """Return the changes to a recipe that need less memory, as advice."""
    changes = [*recipe.family.savings(recipe.model), "a node with more memory"]
    if not recipe.gradient_checkpointing:
        changes.insert(0, "--set gradient_checkpointing=true")
    return f"use {', '.join(changes[:-1])}, or {changes[-1]}"


class MicroBatches:
    """The sequences that a rank has in memory at once."""

    def __init__(self, limit: int, *, report: Callable[[int, int], None] | None = None) -> None:
        self.limit = limit
        self.fitting = 0
        """The most sequences that have fitted into memory, with their gradients."""
        self._report = report

    def cut(self, part: range) -> list[range]:
        """Return a rank's sequences as micro-batches."""
        return pieces(part, self.limit)

    def compute(self, part: range, work: Callable[[Sequence[range]], T], discard: Callable[[], None]) -> T:
        """Return the result of `work` with micro-batches that fit; each failed attempt is followed by `discard`.

        Raise the last error if memory is too small for a single sequence.
        """
        while True:
            micro_batches = self.cut(part)
            largest = max((len(micro) for micro in micro_batches), default=0)
            try:
                return work(micro_batches)
            except (RuntimeError, MemoryError) as error:
                if largest <= 1 or not is_out_of_memory(error):
                    raise
            # Not in the handler above: until it ends, the error refers to the tensors of the failed attempt.
            discard()
            gc.collect()
            torch.cuda.empty_cache()
            self.limit = largest // 2
            if self._report:
                self._report(largest, self.limit)
