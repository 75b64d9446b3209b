"""The specification of a rank of the collective benchmark, as a JSON file, and the meaning of its numbers.

The rank writes JSON lines, each with its kind, rank and time:

    alive       every second
    joined      own, seen: its own random number, and those of all ranks as a collective delivered them;
                engine, path, version: what carries them
    result      operation, size, seconds, iterations, repeat; from rank 0, for the slowest rank
    skipped     operation, sentence: the engine does not have it
    rank_done   everything was measured
    intrusion   address, sentence: a stranger without the secret of the job connected to this rank
    error       as `launch.rank` describes it
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from railbed.launch.spec import RankSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One collective, at some sizes."""

    name: str
    sizes: tuple[int, ...]
    seconds: float = 2.0
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveSpec(RankSpec):
    """Everything one rank of the benchmark needs."""

    engine: str
    operations: tuple[Operation, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> CollectiveSpec:
        """Read the text of a job file."""
        values = json.loads(text)
        operations = tuple(Operation(**{**each, "sizes": tuple(each["sizes"])}) for each in values.pop("operations"))
        return cls(**values, operations=operations)


def bus_factor(operation: str, ranks: int) -> float:
    """Return the factor from algorithm bandwidth to bus bandwidth, as nccl-tests defines it.

    It makes results for different numbers of ranks comparable with the speed of a link: in an all-reduce every byte
    crosses a link twice, less what a rank already has.
    """
    if operation == "broadcast":
        return 1.0
    share = (ranks - 1) / ranks
    return 2 * share if operation == "all_reduce" else share
