"""What a rank does about numbers that do not fit: smaller micro-batches, and a larger scale for fp16.

A rank whose memory is full computes with half as many sequences at a time. The gradients of a step do not depend on how
its sequences are cut into micro-batches. So the rank discards what it has of the step and computes it again, while the
others wait for it as for any slow rank.

Gradients that are too small for fp16 are computed at a larger scale. The loss is multiplied by a power of two, and so
are all gradients. After their sum over all ranks they are divided by it, which is exact. If a gradient was too large
for fp16 on any rank, the sum is not finite on every rank: all of them skip the same update and halve the factor. So
nothing has to be agreed on, and the ranks stay equal.

Ranks that compute in other formats use the factor too if one of them computes in fp16, since its gradients are summed
with theirs.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch

from railbed.errors import RankFailed
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


FIRST, SMALLEST = 2.0**16, 1.0
CALM_STEPS = 2000
"""Steps without an overflow after which the factor is doubled."""


class LossScale:
    """The factor of the loss, and how it develops; part of the training state. Without fp16 it is 1 and stays 1."""

    def __init__(self) -> None:
        self.is_used = False
        self.factor = 1.0
        self._calm = 0
        """Steps since the factor changed."""
        self.skipped = 0
        """Steps whose gradients overflowed, so that no update was made."""

    def use(self) -> None:
        """Scale from now on, because a rank computes in fp16; with the restored factor, if there is one."""
        if not self.is_used:
            self.is_used, self.factor = True, FIRST

    def allows_update(self, norm: float) -> bool:
        """Return whether gradients of this norm are usable, and adapt the factor.

        Raise RankFailed if gradients overflow at any factor.
        """
        if not self.is_used:
            return True
        if not math.isfinite(norm):
            self.factor, self._calm, self.skipped = self.factor / 2, 0, self.skipped + 1
            if self.factor < SMALLEST:
                hint = "--set precision=fp32 has the range, or use a lower learning rate or other data"
                raise RankFailed("the gradients of the model are not finite in fp16", hint=hint, refused=True)
            return False
        self._calm += 1
        if self._calm == CALM_STEPS:
            self.factor, self._calm = self.factor * 2, 0
        return True

    def numbers(self) -> list[float]:
        """Return the state as numbers that ranks can exchange."""
        return [float(self.is_used), self.factor, float(self._calm), float(self.skipped)]

    def set_numbers(self, numbers: Sequence[float]) -> None:
        """Continue with the numbers of another rank."""
        used, self.factor, calm, skipped = numbers
        self.is_used, self._calm, self.skipped = bool(used), int(calm), int(skipped)

    def to_plain(self) -> dict[str, float]:
        """Return the state for a checkpoint; empty if there was never a scale."""
        return {"factor": self.factor, "calm": self._calm, "skipped": self.skipped} if self.is_used else {}

    def restore(self, saved: Mapping[str, object]) -> None:
        """Continue with the state of a checkpoint; raise ValueError if it is invalid."""
        if not saved:
            return
        factor, calm, skipped = saved.get("factor"), saved.get("calm"), saved.get("skipped")
        if not isinstance(factor, float) or not SMALLEST <= factor < math.inf:
            raise ValueError("the factor of the loss is not a number above 0")
        if type(calm) is not int or type(skipped) is not int or min(calm, skipped) < 0:
            raise ValueError("the steps of the loss scale are not counts")
        self.is_used, self.factor, self._calm, self.skipped = True, factor, calm, skipped
