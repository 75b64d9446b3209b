"""Chooses the engine that carries the gradients: the requested one, or the best of those that pass a test.

Each rank reports about itself before that, so that all make the same choice.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from railbed.collective import mpi
from railbed.collective.rendezvous import Rendezvous, exchange
from railbed.collective.timing import Timing
from railbed.errors import RankFailed
from railbed.model.text import duration, size

DEVICES = Path("/sys/class/infiniband")
CAP_IPC_LOCK = 14
LEAST_LOCKED = 256 << 20
"""Memory that RDMA must be able to lock: some buckets and UCX's own buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The report of one rank."""

    rank: int
    node: str
    machine: int
    """Number of its machine: the first rank there."""
    device: str
    interface: str
    mark: str
    """A random number; rank 0's is part of the names that the ranks use for shared objects."""
    rdma: str = ""
    """RDMA devices that it can use, as UCX names them; empty if there are none."""
    no_rdma: str = ""
    """Why there are none."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Engines that cannot be used on its node, and why."""

    @property
    def place(self) -> str:
        """Return its name in messages."""
        return self.node or f"rank {self.rank}"


def roll_call(store: Store, rendezvous: Rendezvous, device: torch.device) -> list[Reply]:
    """Return the replies of all ranks."""
    texts = exchange(store, rendezvous, "state", json.dumps(asdict(reply(rendezvous, device))))
    return [Reply(**json.loads(text)) for text in texts]


def reply(rendezvous: Rendezvous, device: torch.device) -> Reply:
    """Return the reply of this rank."""
    devices = os.environ.get(mpi.DEVICES, "")
    reasons = {"nccl": _lacks_nccl(device), "mpi": _lacks_mpi(device, devices), "gloo": _lacks_gloo()}
    return Reply(
        rank=rendezvous.rank,
        node=rendezvous.node,
        machine=rendezvous.machine,
        device=str(device),
        interface=rendezvous.interface,
        mark=secrets.token_hex(6),
        rdma=devices,
        no_rdma="" if devices else rendezvous.no_rdma or "the cluster file names no RDMA device",
        lacks={engine: why for engine, why in reasons.items() if why},
    )


def _lacks_nccl(device: torch.device) -> str:
    if device.type != "cuda":
        return "its rank computes on the processor, and nccl is for GPUs"
    return "" if dist.is_nccl_available() else f"this torch ({torch.__version__}) is built without nccl"


def _lacks_gloo() -> str:
    return "" if dist.is_gloo_available() else f"this torch ({torch.__version__}) is built without gloo"


def _lacks_mpi(device: torch.device, devices: str) -> str:
    if device.type != "cpu":
        return f"its rank computes on {device}, and mpi is for tensors in the processor's memory"
    gone = [name for name in devices.split(",") if name and not (DEVICES / name.replace(":", "/ports/")).exists()]
    if gone:
        return f"there is no RDMA device {gone[0]}"
    return mpi.missing() or (_locked_memory() if devices else "")


def _locked_memory() -> str:
    """Return why this process may not lock the memory that RDMA reads and writes; empty if it may."""
    _, most = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if most == resource.RLIM_INFINITY or most >= LEAST_LOCKED or _may_lock_any():
        return ""
    return f"ranks may lock only {most} bytes of memory, RDMA needs more; raise `memlock` of the login user"


def _may_lock_any() -> bool:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_IPC_LOCK & 1)
    return False


ENGINES = ("nccl", "mpi", "gloo")
"""The best one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The engine, and why it was chosen."""

    engine: str
    reason: str
    path: str = ""
    """The engine, and the network that it uses."""
    falls_back: bool = False
    """Whether gradients go over TCP between machines although nobody requested that."""
    timings: Mapping[str, Sequence[Timing]] = field(default_factory=dict)
    """The measured engines."""


def candidates(wanted: str, replies: Sequence[Reply]) -> tuple[list[str], str]:
    """Return the engines to test, the best one first, and why better ones are left out.

    A requested engine is the only candidate; if it cannot be used, RankFailed names the node and the reason.
    """
    if wanted != "auto":
        if wanted not in ENGINES:
            raise RankFailed(f"there is no transport {wanted}; choose from {', '.join(ENGINES)} and auto", refused=True)
        if why := _hindrance(wanted, replies):
            raise refusal(wanted, why)
        return [wanted], ""
    gpus = all(reply.device.startswith("cuda") for reply in replies)
    preferred = ["nccl" if gpus else "mpi", "gloo"]
    why = _hindrance(preferred[0], replies) or ("" if gpus else _no_rdma(replies))
    return (preferred[1:], why) if why else (preferred, "")


def refusal(engine: str, why: str) -> RankFailed:
    """Return the error for an engine that was requested and does not work."""
    return RankFailed(
        f"{engine} was requested and does not work here: {why}", hint="`auto` uses an engine that works", refused=True
    )


def decide(
    wanted: str, replies: Sequence[Reply], timings: Mapping[str, Sequence[Timing]], left_out: str
) -> EngineChoice:
    """Return the fastest of the tested engines; `left_out` is why a better one was not tested, or failed."""
    engine = min(timings, key=lambda name: _pace(name, timings))
    path = path_of(engine, replies)
    rivals = [
        f"{path_of(name, replies)} works and takes {_comparison(name, engine, timings)}"
        for name in timings
        if name != engine
    ]
    reasons = [f"{path}: {_describe_timing(timings[engine])}" if timings[engine] else path]
    reasons += ["as requested"] if wanted != "auto" else []
    reasons += [f"because {left_out}"] if left_out else []
    between = len({reply.machine for reply in replies}) > 1
    return EngineChoice(
        engine=engine,
        reason="; ".join([*reasons, *rivals]),
        path=path,
        falls_back=wanted == "auto" and between and "TCP" in path,
        timings=timings,
    )


def path_of(engine: str, replies: Sequence[Reply]) -> str:
    """Return an engine with the network that it uses, as far as that is known before traffic is counted."""
    first = replies[0]
    if len({reply.machine for reply in replies}) == 1:
        return f"{engine} within one machine"
    if engine == "gloo" or (engine == "mpi" and not first.rdma):
        return f"{engine} over TCP ({first.interface})"
    return f"{engine} over RDMA ({first.rdma})" if first.rdma else engine


def _hindrance(engine: str, replies: Sequence[Reply]) -> str:
    """Return why an engine cannot be used, from the first rank that cannot; empty if all can."""
    for reply in replies:
        if engine in reply.lacks:
            return f"{reply.place}: {reply.lacks[engine]}"
    used = [(reply.machine, reply.device) for reply in replies]
    if engine == "nccl" and (twice := [reply for at, reply in enumerate(replies) if used.index(used[at]) != at]):
        return f"{twice[0].place}: two ranks share {twice[0].device}, and nccl needs a GPU for each"
    return ""


def _no_rdma(replies: Sequence[Reply]) -> str:
    """Return why MPI would have no advantage; empty if it may have one."""
    if len({reply.machine for reply in replies}) == 1:
        return "all ranks are on one machine"
    return next((f"{reply.place}: {reply.no_rdma}" for reply in replies if not reply.rdma), "")


def _pace(engine: str, timings: Mapping[str, Sequence[Timing]]) -> float:
    """Return the seconds of the largest size that all engines were measured with."""
    sizes = [{timing.size for timing in measured} for measured in timings.values()]
    common = set.intersection(*sizes) if sizes else set()
    return next((timing.seconds for timing in timings[engine] if common and timing.size == max(common)), 0.0)


def _describe_timing(timings: Sequence[Timing]) -> str:
    last = timings[-1]
    return f"{size(last.size)} in {duration(last.seconds)}, {size(last.rate)}/s"


def _comparison(engine: str, chosen: str, timings: Mapping[str, Sequence[Timing]]) -> str:
    return f"{duration(_pace(engine, timings))}, compared with {chosen}'s {duration(_pace(chosen, timings))}"
