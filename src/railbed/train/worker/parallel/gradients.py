"""DDP's communication hook: the one place where gradients meet the network.

The sum over all ranks is taken, not the mean: every rank's loss is divided by the tokens of the whole global batch
already, so that the sum is the gradient of the mean, whoever computed how much of it.
"""

from __future__ import annotations

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from railbed.collective.base import Collective
from railbed.train.settings import WireFormat
from railbed.train.worker.observe.clock import Clock
from railbed.train.worker.parallel.compression import Wire


class Hook:
    """Sums buckets, and keeps account of one step."""

    def __init__(self, collective: Collective, wire: WireFormat = "fp32") -> None:
        self._collective = collective
        self._wire = Wire(wire)
        self._settle = False
        self._clock: Clock | None = None
        self.last_bucket: float | torch.cuda.Event | None = None
        """When the last bucket of the step was full: from here on nothing hides the network."""
        self.reduced_bytes = 0
        """Of the gradients, in the form in which they travel."""
        self.sent_bytes = 0

    def begin(self, clock: Clock, *, settle: bool = False) -> None:
        """Begin the account of a step; to settle is to hold nothing back for later ones."""
        self._clock = clock
        self._settle = settle
        self.last_bucket = None
        self.reduced_bytes = self.sent_bytes = 0

    def attach(self, replica: DistributedDataParallel) -> None:
        """Make this the hook of a replica. DDP looks at annotations, and does not know them as text: so a lambda."""
        replica.register_comm_hook(None, lambda _, bucket: self.reduce(bucket))

    def reduce(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Begin to sum a bucket over all ranks."""
        buffer = bucket.buffer()
        packed = self._wire.pack(bucket.index(), buffer, settle=self._settle)
        size = packed.numel() * packed.element_size()
        self.reduced_bytes += size
        self.sent_bytes += self._collective.wire_bytes(size)
        if bucket.is_last() and self._clock is not None:
            self.last_bucket = self._clock.now()
        done = self._collective.reduce_bucket(packed)
        return done if packed is buffer else done.then(lambda done: buffer.copy_(done.value()))
