"""The form of a tool: a program that measures something, how it is called, and how its answer is read.

A tool is one file in `tools/` with one `TOOL`, named like the file. It may have several tests (`ib_write_bw`,
`ib_read_lat`); a test's name is its own among all tools. Commands are built for one call, and never run by the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Memory = Literal["host", "gpu"]
Listens = Literal["tcp", "udp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One side of a measurement: a port of a node, as far as it is known."""

    node: str
    rail: str = ""
    netdev: str = ""
    address: str = ""
    rdma: str | None = None
    rdma_port: int = 1
    gid_index: int | None = None
    """The RoCE v2 entry of the address; None on InfiniBand, which needs none."""
    gpu: int | None = None
    """The GPU nearest to it."""
    soft: bool = False
    """Whether its RDMA is Soft-RoCE: made by the kernel, and late where the processor is busy."""

    @property
    def name(self) -> str:
        """`node/netdev`, as findings name a port; the node alone where no port takes part."""
        return f"{self.node}/{self.netdev}" if self.netdev else self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a step of a suite asks for."""

    size: int | None = None
    """Bytes of a message or block; None is the tool's own."""
    seconds: float = 2.0
    samples: int = 5000
    """Messages of a latency test."""
    streams: int = 1
    """Connections or queue pairs at the same time."""
    both: bool = False
    """Both directions at the same time."""
    memory: Memory = "host"
    traffic_class: int | None = None
    path: str = ""
    """Folder for a disk's test."""
    file_bytes: int = 256 * 2**20
    """Size of the file of a disk's test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One use of a tool: a client, the server it talks to, and what was asked for."""

    test: str
    client: End
    server: End
    port: int = 0
    """TCP or UDP port on which the server listens."""
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A number that a tool printed, in the unit that its name stands for."""

    name: str
    value: float
    unit: str
    labels: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was understood of a tool's output."""

    values: tuple[Value, ...]
    version: str | None = None
    samples: tuple[float, ...] = ()
    """Single latencies in microseconds, where the tool printed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One thing that a tool measures."""

    title: str
    program: str
    """What must be installed on both nodes."""
    size: int | None = None
    """Bytes of a message, where nothing else was said."""
    rdma: bool = False
    pulls: bool = False
    """The data goes from the server to the client."""
    latency: bool = False
    """It ends after `samples`, not after `seconds`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program, or a family of programs with one way of speaking."""

    name: str
    title: str
    package: str
    """The Debian package that has it."""
    tests: Mapping[str, Test]
    client: Callable[[Call], str]
    """The command of the side that measures and prints the result."""
    parse: Callable[[str], Reading]
    """Text to values; raises ParseError on text it does not know, and nothing else."""
    server: Callable[[Call], str] | None = None
    """The command of the side that waits; None where nothing has to be started there."""
    listens: Callable[[str], Listens] = lambda _: "tcp"
    """What the server of a test listens for."""
    ends_itself: bool = True
    """The server ends with its client; one that does not is ended by us."""
    scope: Literal["pair", "node"] = "pair"
    version: Callable[[str], str] | None = None
    """A command that prints the version of a test's program, where its output does not tell."""
    overhead: float = 1.0
    """Seconds that a call takes beside its measuring, for the time left."""

    def planned(self, test: str, settings: Settings) -> float:
        """Return about how long a call takes, in seconds."""
        return self.overhead + (0.5 if self.tests[test].latency else settings.seconds)
