"""How gradients travel: as they are, in bf16, or in bf16 with what the rounding left out sent along later.

What bf16 leaves out of a bucket (its residual) is added to the same bucket of the next step, so that no part of a
gradient is lost for good. Residuals differ from rank to rank, and a state that is saved knows nothing of ranks: so a
step whose state is saved sends everything, residuals included, in fp32. After it there are none, and whoever goes on
from that state, on however many ranks, goes on exactly.
"""

from __future__ import annotations

import torch

from railbed.train.settings import WireFormat


class Wire:
    """Puts buckets into the form in which they travel."""

    def __init__(self, form: WireFormat) -> None:
        self.form = form
        self._residuals: dict[int, torch.Tensor] = {}

    def pack(self, index: int, buffer: torch.Tensor, *, settle: bool) -> torch.Tensor:
        """Return what travels of a bucket: itself, or a smaller copy. To settle is to hold nothing back."""
        if self.form == "bf16":
            return buffer.to(torch.bfloat16)
        if self.form == "bf16-feedback":
            return self._with_feedback(index, buffer, settle=settle)
        return buffer

    def _with_feedback(self, index: int, buffer: torch.Tensor, *, settle: bool) -> torch.Tensor:
        residual = self._residuals.get(index)
        if residual is None or residual.shape != buffer.shape:
            # DDP lays its buckets out anew after the first backward pass, which is one of the warm-up and all zeros.
            residual = self._residuals[index] = torch.zeros_like(buffer)
        buffer.add_(residual)
        if settle:
            residual.zero_()
            return buffer
        packed = buffer.to(torch.bfloat16)
        residual.copy_(buffer).sub_(packed)
        return packed
