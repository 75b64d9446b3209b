"""The number format that gradients are sent in: fp32, bf16, or bf16 with error feedback.

With feedback, the rounding error of a bucket (its residual) is added to the same bucket of the next step, so that no
part of a gradient is lost. Residuals differ between ranks and are not part of a checkpoint. So a step whose state will
be saved sends everything, residuals included, in fp32: afterwards there are no residuals, and any number of ranks can
continue exactly.
"""

from __future__ import annotations

import torch

from railbed.train.recipe import WireFormat


class Compressor:
    """Converts buckets to the format they are sent in."""

    def __init__(self, form: WireFormat) -> None:
        self.form = form
        self._residuals: dict[int, torch.Tensor] = {}

    def pack(self, index: int, buffer: torch.Tensor, *, settle: bool) -> torch.Tensor:
        """Return the tensor that is sent for a bucket: itself, or a smaller copy. `settle` also sends the residual."""
        if self.form == "bf16":
            return buffer.to(torch.bfloat16)
        if self.form == "bf16-feedback":
            return self._with_feedback(index, buffer, settle=settle)
        return buffer

    def _with_feedback(self, index: int, buffer: torch.Tensor, *, settle: bool) -> torch.Tensor:
        residual = self._residuals.get(index)
        if residual is None or residual.shape != buffer.shape:
            # DDP rearranges its buckets after the first backward pass, which belongs to the warm-up and is all zeros.
            residual = self._residuals[index] = torch.zeros_like(buffer)
        buffer.add_(residual)
        if settle:
            residual.zero_()
            return buffer
        packed = buffer.to(torch.bfloat16)
        residual.copy_(buffer).sub_(packed)
        return packed
