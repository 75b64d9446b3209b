"""The suite file: what to measure. These classes are its schema."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from railbed.bench.pace import Direction, Pattern
from railbed.bench.tool import COLLECTIVES, test_names, tool_of
from railbed.model.cluster import Number, Part, TcpPort, Text, Whole
from railbed.yamlfile.mistakes import did_you_mean

SIZE = re.compile(r"(?P<count>\d{1,15}) ?(?P<unit>[KMG]?)i?B?", re.IGNORECASE)
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
MAX_BYTES = 2**30


def _size(value: object) -> object:
    """Parse a number of bytes, optionally with K, M or G for powers of 1024."""
    match = SIZE.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    size = int(match["count"]) * UNITS[match["unit"].upper()] if match else 0
    if not 1 <= size <= MAX_BYTES:
        raise ValueError("expected a size such as 8, 64K or 1G, at most 1G")
    return size


def _known_test(value: str) -> str:
    names = test_names()
    if value not in names:
        raise ValueError(f"there is no test {value}{did_you_mean(value, names)}")
    return value


Size = Annotated[int, BeforeValidator(_size), Field(json_schema_extra={"x-form": "a size such as 8, 64K or 1G"})]
TestName = Annotated[str, AfterValidator(_known_test)]
Seconds = Annotated[Number, Field(ge=1, le=3600)]
Count = Annotated[Whole, Field(ge=1, le=1000)]


class Step(Part):
    """One test: between which nodes, and how."""

    test: TestName
    """Name of the test; `railbed bench --list` shows them all."""
    pattern: Pattern = "rounds"
    """Who sends to whom: pair, matrix, rounds, ring, incast or all."""
    direction: Direction = "each"
    """One direction, each direction in turn, or both at the same time."""
    rails: Literal["each", "together"] = "each"
    """Each rail on its own, or all at the same time."""
    sizes: tuple[Size, ...] = ()
    """Bytes per message, such as 64K; by default the test's usual size."""
    seconds: Seconds = 2.0
    """Length of each measurement; of a latency test, at most."""
    samples: Annotated[Whole, Field(ge=5, le=1_000_000)] = 5000
    """How many messages a latency test sends, if they take no longer than `seconds`."""
    streams: Count = 1
    """Parallel connections or queue pairs."""
    repeats: Count = 1
    """How often to measure everything."""
    memory: Literal["host", "gpu"] = "host"
    """Where the data is; gpu means GPUDirect, and needs a perftest built with CUDA."""
    marked: bool = True
    """Whether RDMA uses the traffic class of the policy."""
    path: Text | None = None
    """Folder on the nodes for a disk test; by default the training folder."""
    file: Size = 256 * 2**20
    """File size of a disk test."""
    engine: Text = "auto"
    """What carries a collective: gloo, nccl or mpi; auto picks the fastest that works, as in training."""

    @property
    def is_collective(self) -> bool:
        """Whether all nodes run it together in one job."""
        return self.test in COLLECTIVES

    @model_validator(mode="after")
    def _check_memory(self) -> Step:
        if self.memory == "gpu" and (self.is_collective or tool_of()[self.test].name != "perftest"):
            raise ValueError(f"memory: gpu works only with the perftest tests, not with {self.test}")
        return self


class Suite(Part):
    """The suite file."""

    description: Text = "a suite"
    """Description in one line."""
    first_port: TcpPort = 20500
    """Servers listen on free ports from this port up; a firewall between the nodes must allow them."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    """What to measure, in order."""
