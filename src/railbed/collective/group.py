"""Gloo and NCCL, through torch.distributed."""

from __future__ import annotations

import os
from typing import Literal

import torch
import torch.distributed as dist

from railbed.collective.alone import Alone
from railbed.collective.face import Collective
from railbed.collective.meet import Meeting, meet
from railbed.errors import RankFailed

Engine = Literal["gloo", "nccl"]


class Group:
    """All ranks of a job, over one of torch's own engines."""

    def __init__(self, engine: Engine, rank: int, world: int) -> None:
        self.name: str = engine
        self.rank = rank
        self.world = world

    def reduce_bucket(self, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        """Begin to sum a bucket."""
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

    def all_gather(self, whole: torch.Tensor, part: torch.Tensor) -> None:
        """Gather the parts of all ranks."""
        dist.all_gather_into_tensor(whole, part)

    def reduce_scatter(self, part: torch.Tensor, whole: torch.Tensor) -> None:
        """Take this rank's part of the sum."""
        dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.SUM)

    def all_to_all(self, received: torch.Tensor, sent: torch.Tensor) -> None:
        """Exchange parts with every rank."""
        dist.all_to_all_single(received, sent)

    def wire_bytes(self, size: int) -> int:
        """Return what a ring sends: every byte goes round twice, less what a rank already has."""
        return 2 * (self.world - 1) * size // self.world

    def close(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()


def _only(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]


def connect(engine: str, meeting: Meeting, device: torch.device) -> Collective:
    """Join the others; raise RankFailed where they do not come or the engine is not there."""
    if meeting.world == 1:
        return Alone()
    if engine == "auto":
        engine = "nccl" if device.type == "cuda" else "gloo"
    if engine not in {"gloo", "nccl"}:
        raise RankFailed(f"there is no transport {engine}; gloo and nccl are known")
    if not meeting.interface:
        raise RankFailed("no network interface is given for the gradients; several ranks need one each")
    available = dist.is_nccl_available() if engine == "nccl" else dist.is_gloo_available()
    if not available:
        raise RankFailed(f"this torch ({torch.__version__}) is built without {engine}")
    # Without a name, gloo looks its own host name up and may end at 127.0.1.1.
    os.environ["GLOO_SOCKET_IFNAME"] = meeting.interface
    os.environ["NCCL_SOCKET_IFNAME"] = f"={meeting.interface}"
    store = meet(meeting)
    try:
        dist.init_process_group(
            engine,
            store=store,
            rank=meeting.rank,
            world_size=meeting.world,
            timeout=meeting.span,
            device_id=device if engine == "nccl" else None,
        )
    except RuntimeError as error:
        sentence = str(error).strip().splitlines()[0][:300]
        raise RankFailed(f"rank {meeting.rank} cannot join over {meeting.interface}: {sentence}", peer=True) from None
    return Group("nccl" if engine == "nccl" else "gloo", meeting.rank, meeting.world)
