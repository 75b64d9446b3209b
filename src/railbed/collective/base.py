"""The interface of a group of ranks, which every engine implements."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch


class Collective(Protocol):
    """A group of ranks. Every rank makes the same calls in the same order."""

    name: str
    """The engine: gloo, nccl, mpi, alone."""
    rank: int
    world: int

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Start replacing a tensor by its sum over all ranks; the future resolves to it. For DDP's hook."""
        ...

    def sum(self, tensor: torch.Tensor) -> None:
        """Replace a tensor by its sum over all ranks. On a GPU, later calls wait for it; the processor does not."""
        ...

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Replace a tensor by the source rank's."""
        ...

    def wire_bytes(self, size: int) -> int:
        """Return how many bytes this rank sends to reduce that many bytes."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


@runtime_checkable
class Exchanges(Protocol):
    """Collectives that an engine may have in addition. Training does without them; the benchmark measures them.

    Tensors are flat. All ranks contribute parts of the same size.
    """

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Fill a tensor with the parts of all ranks, in their order."""
        ...

    def reduce_scatter(self, part: torch.Tensor, full: torch.Tensor) -> None:
        """Fill a tensor with this rank's part of the sum of all ranks' tensors."""
        ...

    def all_to_all(self, received: torch.Tensor, sent: torch.Tensor) -> None:
        """Send each rank its part of a tensor, and fill another with the parts received."""
        ...
