"""Joins a rank with the others over the engine that was asked for, or the best that a trial shows to work."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from railbed.collective.base import Collective
from railbed.collective.choose import Choice, candidates, decide, refusal
from railbed.collective.group import Group, join
from railbed.collective.keyserver import Alarm
from railbed.collective.mpi import MpiGroup
from railbed.collective.mpitest import try_mpi, world_of
from railbed.collective.rendezvous import Rendezvous, exchange, open_store
from railbed.collective.rollcall import roll_call
from railbed.collective.single import SingleRank
from railbed.collective.timing import Timing, measure
from railbed.errors import RankFailed

TRIAL_SECONDS = 1.0
"""For each engine that is tried."""


def connect(
    wanted: str, rendezvous: Rendezvous, device: torch.device, sizes: Sequence[int], alarm: Alarm
) -> tuple[Collective, Choice]:
    """Join the others, and say how; `sizes` are the bytes of the buckets that the trial sums.

    Raises RankFailed where they do not come, or what was asked for does not work.
    """
    if rendezvous.world == 1 and wanted != "nccl":  # which is taken at its word: it shows that this GPU has it
        return SingleRank(), Choice(engine="alone", reason="one rank needs no network")
    if not rendezvous.interface:
        raise RankFailed("no network interface is given for the gradients; several ranks need one each")
    # Without a name, gloo looks its own host name up and may end at 127.0.1.1.
    os.environ["GLOO_SOCKET_IFNAME"] = rendezvous.interface
    os.environ["NCCL_SOCKET_IFNAME"] = f"={rendezvous.interface}"
    store = open_store(rendezvous, alarm)
    replies = roll_call(store, rendezvous, device)
    engines, left_out = candidates(wanted, replies)
    timings: dict[str, Sequence[Timing]] = {}
    if "mpi" in engines:
        tried = try_mpi(store, rendezvous, replies, sizes, TRIAL_SECONDS)
        if tried.why and wanted == "mpi":
            raise refusal("mpi", tried.why)
        left_out = f"mpi does not work: {tried.why}" if tried.why else ""
        timings = {} if tried.why else {"mpi": tried.timings}
    group, why = _torch_group(engines, rendezvous, store, device, sizes)
    left_out = left_out or why
    if group.name in engines:
        timings[group.name] = _timed(group, device, sizes)
    choice = decide(wanted, replies, timings, left_out)
    if choice.engine == "mpi":
        world = world_of(store, "mpi", rendezvous, replies, rendezvous.timeout)
        return MpiGroup(world, rendezvous.interface), choice
    return group, choice


def _torch_group(
    engines: Sequence[str], rendezvous: Rendezvous, store: Store, device: torch.device, sizes: Sequence[int]
) -> tuple[Group, str]:
    """Return torch's own group: of NCCL where that is a candidate and works, otherwise of gloo, and why."""
    why = ""
    if "nccl" in engines:
        group, why = _try_nccl(rendezvous, store, device, sizes)
        if group:
            return group, ""
        if "gloo" not in engines:
            raise refusal("nccl", why)
        why = f"nccl does not work: {why}"
    return join("gloo", rendezvous, PrefixStore("gloo", store), device), why


def _try_nccl(
    rendezvous: Rendezvous, store: Store, device: torch.device, sizes: Sequence[int]
) -> tuple[Group | None, str]:
    """Join over NCCL and sum something; where that fails for one rank, all leave again."""
    group, failed = None, ""
    try:
        group = join("nccl", rendezvous, PrefixStore("nccl", store), device)
        _timed(group, device, sizes[:1])
    except (RuntimeError, RankFailed) as error:
        failed = next(iter(str(error).strip().splitlines()), "it failed")[:300]
    told = exchange(store, rendezvous, "trial of nccl", failed)
    why = next((f"rank {rank}: {said}" for rank, said in enumerate(told) if said), "")
    if why and dist.is_initialized():
        dist.destroy_process_group()
    return (None if why else group), why


def _timed(group: Group, device: torch.device, sizes: Sequence[int]) -> list[Timing]:
    """Return how fast a group is, by trial."""
    memory = torch.zeros(max(sizes) // 4, device=device)

    def reduce(size: int) -> None:
        group.sum(memory[: size // 4])
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def agree(going_on: bool) -> bool:
        said = torch.tensor([int(going_on)], device=device)
        group.broadcast(said, 0)
        return bool(said.item())

    return measure(reduce, agree, sizes, TRIAL_SECONDS)
