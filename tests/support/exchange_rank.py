"""One of two ranks here that sum and exchange tensors over MPI: `python -m tests.support.exchange_rank RANK PORT`."""

from __future__ import annotations

import os
import sys

import torch

from railbed.collective.connect import connect
from railbed.collective.group import Exchanges
from railbed.collective.rendezvous import Rendezvous


def main(rank: int, port: int) -> None:
    """Run one of each, and check the result."""
    rendezvous = Rendezvous(
        address="127.0.0.1",
        port=port,
        name="exchange",
        rank=rank,
        world=2,
        interface="lo",
        timeout=60.0,
        secret="ab" * 32,
    )
    group, choice = connect("mpi", rendezvous, torch.device("cpu"), [4096], lambda *_: None)
    assert choice.engine == group.name == "mpi"
    assert isinstance(group, Exchanges)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64):
        first, second = (torch.full((1000,), rank + number).to(dtype) for number in (1, 3))
        futures = [group.reduce_bucket(first), group.reduce_bucket(second)]
        assert [future.wait()[0].item() for future in futures] == [3, 7], dtype
        assert bool((first == 3).all() and (second == 7).all()), dtype
    state = torch.arange(7, dtype=torch.int64) * rank
    group.broadcast(state, 1)
    assert state.tolist() == list(range(7))
    own, gathered = torch.full((3,), float(rank)), torch.empty(6)
    group.all_gather(gathered, own)
    assert gathered.tolist() == [0, 0, 0, 1, 1, 1]
    group.reduce_scatter(own, torch.arange(6.0))
    assert own.tolist() == [2 * (3 * rank + at) for at in range(3)]
    group.all_to_all(gathered, torch.arange(6.0) + 10 * rank)
    assert gathered.tolist() == [float(10 * source + 3 * rank + at) for source in range(2) for at in range(3)]
    group.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)
