"""The group of a single rank, which needs no network."""

from __future__ import annotations

import torch


class SingleRank:
    """The group of a single rank."""

    name = "alone"
    rank = 0
    world = 1

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Return the tensor: it already is the sum."""
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(tensor)
        return future

    def sum(self, tensor: torch.Tensor) -> None:
        """Do nothing: the tensor already is the sum."""

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Do nothing: there is no other rank."""

    def wire_bytes(self, size: int) -> int:  # noqa: ARG002 -- part of the interface
        """Return 0."""
        return 0

    def close(self) -> None:
        """Do nothing."""
