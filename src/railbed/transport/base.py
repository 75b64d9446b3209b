"""The seam to the outside: run commands on one device, in one round trip."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from railbed.model.cluster import Cluster, Login
from railbed.model.output import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a batch."""

    key: str
    script: str
    timeout: float = 10.0
    tool: str = ""
    as_root: bool = False
    endless: bool = False
    """It goes on until it is ended, as a server does: to end it is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device and how to log in to it."""

    name: str
    host: str
    login: Login = field(default_factory=Login)


class Program(Protocol):
    """A program that runs on a device, with its input open; it is ended by ending its input."""

    async def write(self, data: bytes) -> None:
        """Give it input; nothing is said when it is gone, since reading tells."""
        ...

    async def read(self, stream: int) -> bytes:
        """Return the next bytes of standard output (1) or standard error (2); empty at the end."""
        ...


class Transport(Protocol):
    """A connection to one device."""

    def run(self, commands: Sequence[Command]) -> AsyncGenerator[Output, None]:
        """Run commands one after another and yield each output as it ends; always one output per command."""
        ...

    def open(self, command: str) -> AbstractAsyncContextManager[Program]:
        """Start a program that goes on until its input ends, which it does with the context at the latest."""
        ...


Reach = Callable[[Target], AbstractAsyncContextManager[Transport]]
"""Opens the one connection to a device. Raises DeviceError."""


def targets_of(cluster: Cluster) -> tuple[Target, ...]:
    """Return the nodes of a cluster as targets."""
    return tuple(
        Target(name=name, host=node.host, login=node.login.over(cluster.login)) for name, node in cluster.nodes.items()
    )
