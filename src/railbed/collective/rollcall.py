"""What each rank reports about itself before an engine is chosen, so that all make the same choice."""

from __future__ import annotations

import json
import os
import resource
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from railbed.collective import mpilibrary
from railbed.collective.rendezvous import Rendezvous, exchange

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
    devices = os.environ.get(mpilibrary.DEVICES, "")
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
    return mpilibrary.missing() or (_locked_memory() if devices else "")


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
