"""The collectives that are measured: their tensors for a size, the call, and the expected result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from railbed.collective.group import Collective, Exchanges
from railbed.errors import RankFailed

BYTES = 4
"""Size of a float32, the default of nccl-tests."""


class Unable(Exception):
    """The engine does not have this collective."""


@dataclass(frozen=True, slots=True)
class PreparedCollective:
    """A collective with its tensors."""

    size: int
    """Bytes as nccl-tests counts them: those of a rank's largest buffer."""
    call: Callable[[], None]
    check: Callable[[], bool]
    """Make one call, and return whether its result is correct."""


def prepare(name: str, size: int, group: Collective, device: torch.device) -> PreparedCollective:
    """Return a collective on tensors of about this size; raise Unable if the engine does not have it."""
    parts = max(1, size // BYTES // group.world)
    if name == "all_reduce":
        return _all_reduce(max(1, size // BYTES), group, device)
    if name == "broadcast":
        return _broadcast(max(1, size // BYTES), group, device)
    if not isinstance(group, Exchanges):
        raise Unable(f"{group.name} has no {name}")
    match name:
        case "all_gather":
            return _all_gather(parts, group, group, device)
        case "reduce_scatter":
            return _reduce_scatter(parts, group, group, device)
        case "all_to_all":
            return _all_to_all(parts, group, group, device)
    raise RankFailed(f"there is no collective {name}")


def _all_reduce(count: int, group: Collective, device: torch.device) -> PreparedCollective:
    tensor = torch.empty(count, device=device)

    def check() -> bool:
        tensor.fill_(group.rank + 1)
        group.sum(tensor)
        return _all_equal(tensor, group.world * (group.world + 1) / 2)

    return PreparedCollective(count * BYTES, lambda: group.sum(tensor), check)


def _broadcast(count: int, group: Collective, device: torch.device) -> PreparedCollective:
    tensor = torch.empty(count, device=device)

    def check() -> bool:
        tensor.fill_(group.rank + 7)
        group.broadcast(tensor, 0)
        return _all_equal(tensor, 7)

    return PreparedCollective(count * BYTES, lambda: group.broadcast(tensor, 0), check)


def _all_gather(count: int, group: Collective, engine: Exchanges, device: torch.device) -> PreparedCollective:
    part = torch.full((count,), float(group.rank + 1), device=device)
    full = torch.empty(count * group.world, device=device)

    def check() -> bool:
        engine.all_gather(full, part)
        return all(_all_equal(chunk, rank + 1) for rank, chunk in enumerate(full.chunk(group.world)))

    return PreparedCollective(count * group.world * BYTES, lambda: engine.all_gather(full, part), check)


def _reduce_scatter(count: int, group: Collective, engine: Exchanges, device: torch.device) -> PreparedCollective:
    full = torch.full((count * group.world,), float(group.rank + 1), device=device)
    part = torch.empty(count, device=device)

    def check() -> bool:
        engine.reduce_scatter(part, full)
        return _all_equal(part, group.world * (group.world + 1) / 2)

    return PreparedCollective(count * group.world * BYTES, lambda: engine.reduce_scatter(part, full), check)


def _all_to_all(count: int, group: Collective, engine: Exchanges, device: torch.device) -> PreparedCollective:
    sent = torch.arange(group.world, device=device, dtype=torch.float32).repeat_interleave(count)
    sent += group.world * group.rank
    received = torch.empty(count * group.world, device=device)

    def check() -> bool:
        engine.all_to_all(received, sent)
        wanted = [group.world * rank + group.rank for rank in range(group.world)]
        return all(_all_equal(chunk, value) for chunk, value in zip(received.chunk(group.world), wanted, strict=True))

    return PreparedCollective(count * group.world * BYTES, lambda: engine.all_to_all(received, sent), check)


def _all_equal(tensor: torch.Tensor, value: float) -> bool:
    return bool((tensor == value).all())
