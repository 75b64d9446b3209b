"""What to measure, as a file. These classes are the suite file."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from railbed.bench.measure.pattern import Direction, Pattern
from railbed.bench.toolset import COLLECTIVES, test_names, tool_of
from railbed.model.cluster import Number, Part, TcpPort, Text, Whole
from railbed.yamlfile.mistakes import did_you_mean

SIZE = re.compile(r"(?P<count>\d{1,15}) ?(?P<unit>[KMG]?)i?B?", re.IGNORECASE)
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
MOST_BYTES = 2**30


def _size(value: object) -> object:
    """Read bytes: a number, or one with K, M or G for the powers of 1024."""
    match = SIZE.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    size = int(match["count"]) * UNITS[match["unit"].upper()] if match else 0
    if not 1 <= size <= MOST_BYTES:
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
    """One test, with whom and how."""

    test: TestName
    """Its name; `railbed bench --list` shows all."""
    pattern: Pattern = "rounds"
    """Who sends to whom: pair, matrix, rounds, ring, incast or all."""
    direction: Direction = "each"
    """One way, each way after the other, or both at the same time."""
    rails: Literal["each", "together"] = "each"
    """Each rail by itself, or all at the same time."""
    sizes: tuple[Size, ...] = ()
    """Bytes of a message, as 64K; without any, what the test is known for."""
    seconds: Seconds = 2.0
    """How long each measurement takes."""
    samples: Annotated[Whole, Field(ge=5, le=1_000_000)] = 5000
    """How many messages a latency test sends."""
    streams: Count = 1
    """Connections, or queue pairs, at the same time."""
    repeats: Count = 1
    """How often everything is measured."""
    memory: Literal["host", "gpu"] = "host"
    """Where the data lies; gpu is GPUDirect, and needs a perftest that was built with CUDA."""
    marked: bool = True
    """RDMA with the traffic class of the policy."""
    path: Text | None = None
    """Folder on the nodes for a disk's test; by default that for training."""
    file: Size = 256 * 2**20
    """Size of the file for a disk's test."""
    engine: Text = "auto"
    """What a collective goes over: gloo, nccl or mpi; auto is the fastest that works, as in training."""

    @property
    def is_collective(self) -> bool:
        """Whether all nodes do it in one job."""
        return self.test in COLLECTIVES

    @model_validator(mode="after")
    def _fits_the_test(self) -> Step:
        if self.memory == "gpu" and (self.is_collective or tool_of()[self.test].name != "perftest"):
            raise ValueError(f"memory: gpu is for the tests of perftest, not for {self.test}")
        return self


class Suite(Part):
    """The suite file."""

    description: Text = "a suite"
    """A line about it."""
    first_port: TcpPort = 20500
    """Servers listen on free ports from here on; a firewall between the nodes must let them through."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    """What to measure, in this order."""
