"""The interface of tools: a program that measures something, how to call it, and how to parse its output.

A tool is one file in `tools/` with one `TOOL`, named like the file; all of them are looked up here by name. It may
offer several tests (`ib_write_bw`, `ib_read_lat`); test names are unique across tools. A tool only builds commands; it
never runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from railbed import catalog
from railbed.bench import tools

FEW_SAMPLES = 20
"""So few samples are taken first, if nothing shows yet how long one takes."""
QUICK_SECONDS = 0.5
"""How long the samples of a latency test take on a real fabric."""
BufferMemory = Literal["host", "gpu"]
Listens = Literal["tcp", "udp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One side of a measurement: a port of a node, with the known facts about it."""

    node: str
    rail: str = ""
    netdev: str = ""
    address: str = ""
    rdma: str | None = None
    rdma_port: int = 1
    gid_index: int | None = None
    """Index of the RoCE GID for the address; None on InfiniBand, which needs none."""
    roce_v1: bool = False
    """Whether that GID is of RoCE v1, whose packets have no traffic class."""
    gpu: int | None = None
    """The nearest GPU."""
    soft: bool = False
    """Whether its RDMA is Soft-RoCE, which runs in the kernel and is slow on a busy processor."""

    @property
    def name(self) -> str:
        """`node/netdev`, as in findings; just the node if no port is involved."""
        return f"{self.node}/{self.netdev}" if self.netdev else self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """The settings of a step of a suite for its test."""

    size: int | None = None
    """Bytes per message or block; None for the tool's default."""
    seconds: float = 2.0
    samples: int = 5000
    """Messages per latency test, at most; fewer if they take longer than `seconds`."""
    streams: int = 1
    """Parallel connections or queue pairs."""
    both: bool = False
    """Both directions at the same time."""
    memory: BufferMemory = "host"
    traffic_class: int | None = None
    path: str = ""
    """Folder for a disk test."""
    file_bytes: int = 256 * 2**20
    """File size of a disk test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One use of a tool: a client, the server it connects to, and the settings."""

    test: str
    client: End
    server: End
    port: int = 0
    """TCP or UDP port on which the server listens."""
    settings: ToolSettings = ToolSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolValue:
    """A number that a tool printed, converted to the unit of its name."""

    name: str
    value: float
    unit: str
    labels: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The parsed output of a tool."""

    values: tuple[ToolValue, ...]
    version: str | None = None
    samples: tuple[float, ...] = ()
    """Individual latencies in microseconds, if the tool printed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTest:
    """One kind of measurement that a tool offers."""

    title: str
    program: str
    """The program that both nodes need."""
    size: int | None = None
    """Default bytes per message."""
    rdma: bool = False
    pulls: bool = False
    """Whether data flows from the server to the client."""
    latency: bool = False
    """Whether the program ends after a number of messages rather than a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program, or a family of programs with the same options and output."""

    name: str
    title: str
    package: str
    """Its Debian package."""
    tests: Mapping[str, ToolTest]
    client: Callable[[ToolCall], str]
    """Build the command of the side that measures and prints the result."""
    parse: Callable[[str], ToolResult]
    """Turn text into values; raise ParseError for unknown text, and nothing else."""
    server: Callable[[ToolCall], str] | None = None
    """Build the command of the side that waits; None if the tool needs no server."""
    listens: Callable[[str], Listens] = lambda _: "tcp"
    """The protocol that a test's server listens on."""
    ends_itself: bool = True
    """Whether the server exits with its client; if not, railbed ends it."""
    scope: Literal["pair", "node"] = "pair"
    version: Callable[[str], str] | None = None
    """Build a command that prints the version, if the test's output does not contain it."""
    interval: float | None = None
    """Seconds from one sample to the next, if the program keeps to a pace; None if each follows the previous one."""
    overhead: float = 1.0
    """Seconds that a call takes on top of measuring, for the estimate of the time left."""

    def expected_seconds(self, test: str, settings: ToolSettings, start: float = 0.0) -> float:
        """Return roughly how many seconds a call takes; `start` is how long slow nodes take to start a program."""
        quick = self.tests[test].latency and (not start or self.interval is not None)
        measuring = min(QUICK_SECONDS, settings.seconds) if quick else settings.seconds
        return max(self.overhead, start) + measuring


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
"""Tests that railbed runs itself, with all nodes in one job."""


@cache
def all_tools() -> Mapping[str, Tool]:
    """Return every tool by its name."""
    return catalog.collect(tools, Tool, "TOOL")


@cache
def tool_of() -> Mapping[str, Tool]:
    """Return the tool of every test, by the test's name."""
    owners: dict[str, Tool] = {}
    for tool in all_tools().values():
        for test in tool.tests:
            if test in owners:
                raise ValueError(f"{tool.name} and {owners[test].name} both have a test {test}")
            owners[test] = tool
    return owners


def test_of(name: str) -> ToolTest:
    """Return a test by name."""
    return tool_of()[name].tests[name]


def test_names() -> list[str]:
    """Return the names of all tests that a suite can contain."""
    return [*tool_of(), *COLLECTIVES]
