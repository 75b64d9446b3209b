"""Joins a rank with the others over the requested engine, or the best one that passes a test."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from railbed.collective.choose import EngineChoice, candidates, decide, refusal, roll_call
from railbed.collective.group import Collective, Group, SingleRank, join
from railbed.collective.keyserver import Alarm
from railbed.collective.mpi import MpiGroup
from railbed.collective.mpitest import run_mpi_test, world_of
from railbed.collective.rendezvous import Rendezvous, exchange, open_store
from railbed.collective.timing import Timing, measure
from railbed.errors import RankFailed

TEST_SECONDS = 1.0
"""For each engine."""


def connect(
    wanted: str, rendezvous: Rendezvous, device: torch.device, sizes: Sequence[int], alarm: Alarm
) -> tuple[Collective, EngineChoice]:
    """Join the others; return the group and why its engine was chosen. `sizes` are the bytes that the tests sum.

    Raises RankFailed if the others do not join, or if the requested engine does not work.
    """
    if rendezvous.world == 1 and wanted != "nccl":  # used anyway, which shows that it works on this GPU
        return SingleRank(), EngineChoice(engine="alone", reason="one rank needs no network")
    if not rendezvous.interface:
        raise RankFailed("several ranks need a network interface for the gradients, and none is set")
    # Without a name, gloo resolves its own host name and may end up at 127.0.1.1.
    os.environ["GLOO_SOCKET_IFNAME"] = rendezvous.interface
    os.environ["NCCL_SOCKET_IFNAME"] = f"={rendezvous.interface}"
    store = open_store(rendezvous, alarm)
    replies = roll_call(store, rendezvous, device)
    engines, left_out = candidates(wanted, replies)
    timings: dict[str, Sequence[Timing]] = {}
    if "mpi" in engines:
        tested = run_mpi_test(store, rendezvous, replies, sizes, TEST_SECONDS)
        if tested.why and wanted == "mpi":
            raise refusal("mpi", tested.why)
        left_out = f"mpi does not work: {tested.why}" if tested.why else ""
        timings = {} if tested.why else {"mpi": tested.timings}
    group, why = _torch_group(engines, rendezvous, store, device, sizes)
    left_out = left_out or why
    if group.name in engines:
        timings[group.name] = _time_sums(group, device, sizes)
    choice = decide(wanted, replies, timings, left_out)
    if choice.engine == "mpi":
        world = world_of(store, "mpi", rendezvous, replies, rendezvous.timeout)
        return MpiGroup(world, rendezvous.interface), choice
    return group, choice


def _torch_group(
    engines: Sequence[str], rendezvous: Rendezvous, store: Store, device: torch.device, sizes: Sequence[int]
) -> tuple[Group, str]:
    """Return torch's own group: NCCL if it is a candidate and works, otherwise gloo, and why."""
    why = ""
    if "nccl" in engines:
        group, why = _test_nccl(rendezvous, store, device, sizes)
        if group:
            return group, ""
        if "gloo" not in engines:
            raise refusal("nccl", why)
        why = f"nccl does not work: {why}"
    return join("gloo", rendezvous, PrefixStore("gloo", store), device), why


def _test_nccl(
    rendezvous: Rendezvous, store: Store, device: torch.device, sizes: Sequence[int]
) -> tuple[Group | None, str]:
    """Join over NCCL and sum a tensor; if that fails for one rank, all leave again."""
    group, failed = None, ""
    try:
        group = join("nccl", rendezvous, PrefixStore("nccl", store), device)
        _time_sums(group, device, sizes[:1])
    except (RuntimeError, RankFailed) as error:
        failed = next(iter(str(error).strip().splitlines()), "it failed")[:300]
    failures = exchange(store, rendezvous, "test of nccl", failed)
    why = next((f"rank {rank}: {failure}" for rank, failure in enumerate(failures) if failure), "")
    if why and dist.is_initialized():
        dist.destroy_process_group()
    return (None if why else group), why


def _time_sums(group: Group, device: torch.device, sizes: Sequence[int]) -> list[Timing]:
    """Measure how fast a group sums."""
    memory = torch.zeros(max(sizes) // 4, device=device)

    def reduce(size: int) -> None:
        group.sum(memory[: size // 4])
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def agree(going_on: bool) -> bool:
        decision = torch.tensor([int(going_on)], device=device)
        group.broadcast(decision, 0)
        return bool(decision.item())

    return measure(reduce, agree, sizes, TEST_SECONDS)
