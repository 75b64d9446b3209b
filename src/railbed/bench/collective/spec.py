"""What a rank of the collective benchmark is told, as a JSON file, and what its numbers mean.

    python -m railbed.bench.collective.worker JOB.json --messages FD

The rank answers with JSON lines, each with its kind, rank and time:

    alive       every second
    joined      own, seen: its own random number, and those of all ranks as a collective brought them;
                engine, path, version: what carries them
    result      operation, size, seconds, iterations, repeat; from rank 0, for the slowest rank
    skipped     operation, sentence: the engine cannot do it
    done        everything was measured
    intrusion   address, sentence: somebody without the secret of the job spoke to this rank
    error       sentence, peer; interference: true where somebody got between the ranks
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One collective, at some sizes."""

    name: str
    sizes: tuple[int, ...]
    seconds: float = 2.0
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveSpec:
    """Everything one rank needs to know."""

    run: str
    engine: str
    rank: int
    world: int
    local_rank: int
    node: str
    no_rdma: str
    """Why its node has no RDMA; empty where it has."""
    master_address: str
    master_port: int
    secret: str = field(repr=False)
    """What the ranks know each other by, and nobody else may read."""
    interface: str
    timeout_seconds: float = 60.0
    operations: tuple[Operation, ...] = ()

    def to_json(self) -> str:
        """Return the job as the text of its file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CollectiveSpec:
        """Read the text of a job file."""
        values = json.loads(text)
        operations = tuple(Operation(**{**one, "sizes": tuple(one["sizes"])}) for one in values.pop("operations"))
        return cls(**values, operations=operations)


def bus_factor(operation: str, ranks: int) -> float:
    """Return what the algorithm bandwidth is multiplied with for the bus bandwidth, as nccl-tests defines it.

    So results for different numbers of ranks compare with the speed of a link: of an all-reduce every byte crosses a
    link twice, less what a rank already has.
    """
    if operation == "broadcast":
        return 1.0
    share = (ranks - 1) / ranks
    return 2 * share if operation == "all_reduce" else share
