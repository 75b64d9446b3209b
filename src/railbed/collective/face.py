"""What a rank can do together with the others."""

from __future__ import annotations

from typing import Protocol

import torch


class Collective(Protocol):
    """A group of ranks. Every rank makes the same calls in the same order."""

    name: str
    """The engine: gloo, nccl, mpi, alone."""
    rank: int
    world: int

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Begin to replace a tensor by its sum over all ranks; the future has it. For DDP's hook."""
        ...

    def sum(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by its sum over all ranks. On a GPU the calls that follow wait for it, not the processor."""
        ...

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Replace a tensor by that of the source."""
        ...

    def wire_bytes(self, size: int) -> int:
        """Return how many bytes this rank sends to reduce that many bytes."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...
