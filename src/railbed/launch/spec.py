"""The specification that every rank gets at its start. Standard library only: ranks read it on their nodes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """One rank of a generation. Jobs extend it with their own fields, and add `from_json`."""

    run: str
    generation: int = 0
    """Counts the starts of a job; ranks of different generations never meet."""
    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    """Ranks on this node; they share its cores."""
    node: str = ""
    """Name of this node, for messages."""
    master_address: str = "127.0.0.1"
    """Address of rank 0's node, on the network that the job uses; never a host name."""
    master_port: int = 0
    listener: int = -1
    """File descriptor of the open socket with that address and port, which rank 0 inherits; -1 if it opens its own."""
    secret: str = field(default="", repr=False)
    """The secret that proves membership in this generation; nobody else may read it."""
    interface: str = ""
    """Network interface of this node that carries the job's traffic; several with commas. Needed for several ranks."""
    timeout_seconds: float = 60.0
    """How long to wait for the other ranks, at the start and in every collective."""
    no_rdma: str = ""
    """Why this node has no RDMA; empty if it does."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that the rank sets before it loads its function, such as NCCL_IB_HCA."""

    def to_json(self) -> str:
        """Return the text of the job file."""
        return json.dumps(asdict(self))

    def common(self) -> dict[str, Any]:
        """Return the fields that all jobs share, for the constructor of a job's own spec."""
        return {item.name: getattr(self, item.name) for item in fields(RankSpec)}
