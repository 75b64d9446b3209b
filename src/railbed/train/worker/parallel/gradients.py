"""Sums gradients over all ranks, bucket by bucket: as DDP's communication hook, or after the backward passes.

It computes the sum rather than the mean, because every rank divides its loss by the tokens of the whole global batch.
So the sum is the gradient of the mean for any split of the batch.

They are sent as fp32, bf16, or bf16 with error feedback. With feedback, the rounding error of a bucket (its residual)
is added to the same bucket of the next step, so that no part of a gradient is lost. Residuals differ between ranks and
are not part of a checkpoint. So a step whose state will be saved sends everything, residuals included, in fp32:
afterwards there are no residuals, and any number of ranks can continue exactly.
"""

from __future__ import annotations

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from railbed.collective.group import Collective
from railbed.train.recipe import WireFormat
from railbed.train.worker.observe.clock import StepTimer


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


class GradientSum:
    """Sums buckets, and counts the bytes of one step."""

    def __init__(self, collective: Collective, wire: WireFormat = "fp32") -> None:
        self._collective = collective
        self._compressor = Compressor(wire)
        self._settle = False
        self._clock: StepTimer | None = None
        self.last_bucket: float | torch.cuda.Event | None = None
        """When the last bucket of the step was full: from then on no computation hides the communication."""
        self.reduced_bytes = 0
        """Bytes of gradients, in the format they are sent in."""
        self.sent_bytes = 0
        """Bytes that this rank sent for them."""

    def begin(self, clock: StepTimer, *, settle: bool = False) -> None:
        """Begin a step; `settle` sends everything and leaves no rounding error for later steps."""
        self._clock = clock
        self._settle = settle
        self.last_bucket = None
        self.reduced_bytes = self.sent_bytes = 0

    def attach(self, replica: DistributedDataParallel) -> None:
        """Become the hook of a replica. A lambda, because DDP rejects annotations that are strings."""
        replica.register_comm_hook(None, lambda _, bucket: self.reduce(bucket))

    def reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the sum of a bucket of DDP over all ranks."""
        return self.start(bucket.index(), bucket.buffer(), last=bucket.is_last())

    def start(self, index: int, buffer: torch.Tensor, *, last: bool) -> torch.futures.Future[torch.Tensor]:
        """Start the sum of gradients over all ranks; `last` if it is the last of the step."""
        packed = self._compressor.pack(index, buffer, settle=self._settle)
        size = packed.numel() * packed.element_size()
        self.reduced_bytes += size
        self.sent_bytes += self._collective.wire_bytes(size)
        if last and self._clock is not None:
            self.last_bucket = self._clock.now()
        done = self._collective.reduce_bucket(packed)
        return done if packed is buffer else done.then(lambda done: buffer.copy_(done.value()))
