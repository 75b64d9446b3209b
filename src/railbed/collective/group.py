"""The interface of a group of ranks, and the engines that need nothing else: gloo, NCCL, and a single rank.

Gloo and NCCL are used through torch.distributed; a single rank needs no network.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from railbed.collective.rendezvous import Rendezvous
from railbed.errors import RankFailed

Engine = Literal["gloo", "nccl"]


class Group:
    """All ranks of a job, over one of torch's own engines."""

    def __init__(self, engine: Engine, rank: int, world: int) -> None:
        self.name: str = engine
        self.rank = rank
        self.world = world

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Start summing a bucket."""
        work = dist.all_reduce(tensor, op=dist.ReduceOp.SUM, async_op=True)
        assert work is not None
        done: torch.futures.Future[list[torch.Tensor]] = work.get_future()
        return done.then(_only)

    def sum(self, tensor: torch.Tensor) -> None:
        """Sum a tensor."""
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM)

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Take the source's tensor."""
        dist.broadcast(tensor, source)

    def all_gather(self, full: torch.Tensor, part: torch.Tensor) -> None:
        """Gather the parts of all ranks."""
        dist.all_gather_into_tensor(full, part)

    def reduce_scatter(self, part: torch.Tensor, full: torch.Tensor) -> None:
        """Take this rank's part of the sum."""
        dist.reduce_scatter_tensor(part, full, op=dist.ReduceOp.SUM)

    def all_to_all(self, received: torch.Tensor, sent: torch.Tensor) -> None:
        """Exchange parts with every rank."""
        dist.all_to_all_single(received, sent)

    def wire_bytes(self, size: int) -> int:
        """Return the bytes that a ring sends: every byte goes around twice, except a rank's own part."""
        return 2 * (self.world - 1) * size // self.world

    def close(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()


def _only(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]


def join(engine: Engine, rendezvous: Rendezvous, store: Store, device: torch.device) -> Group:
    """Create torch's own group of all ranks."""
    try:
        dist.init_process_group(
            engine,
            store=store,
            rank=rendezvous.rank,
            world_size=rendezvous.world,
            timeout=rendezvous.span,
            device_id=device if engine == "nccl" else None,
        )
    except RuntimeError as error:
        sentence = str(error).strip().splitlines()[0][:300]
        raise RankFailed(
            f"rank {rendezvous.rank} cannot join over {rendezvous.interface}: {sentence}", peer=True
        ) from None
    return Group(engine, rendezvous.rank, rendezvous.world)


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
