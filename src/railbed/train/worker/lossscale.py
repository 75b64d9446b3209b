"""Loss scaling: gradients that are too small for fp16 are computed at a larger scale.

The loss is multiplied by a power of two, and so are all gradients. After their sum over all ranks they are divided by
it, which is exact. If a gradient was too large for fp16 on any rank, the sum is not finite on every rank: all of them
skip the same update and halve the factor. So nothing has to be agreed on, and the ranks stay equal.

Ranks that compute in other formats use the factor too if one of them computes in fp16, since its gradients are summed
with theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from railbed.errors import RankFailed

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
