"""The interface of all transports: run commands on one device."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from railbed.model.cluster import LOCAL_HOST, Bmc, Cluster, DeviceKind, Login, Nxapi, Switch
from railbed.model.reading import Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a batch."""

    key: str
    script: str
    timeout: float = 10.0
    tool: str = ""
    as_root: bool = False
    endless: bool = False
    """Runs until it is stopped, like a server; stopping it is not a failure."""
    recorded: bool = True
    """Its output belongs in a recording; that of a command repeated every few seconds does not."""


Access = Literal["local", "ssh", "srun", "ssh-cli", "nxapi", "redfish", "ipmi", "none"]
"""How a device is reached: this machine's own shell, a shell over SSH or in a Slurm job, the command line of a switch
over SSH or NX-API, a BMC over Redfish or IPMI, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device, how it is reached and how to log in."""

    name: str
    host: str
    """Address or name; empty if the cluster file gives none."""
    login: Login = field(default_factory=Login)
    kind: DeviceKind = "node"
    nxapi: Nxapi | None = None
    """Port and certificate of a switch that is reached over NX-API."""
    bmc: Bmc | None = None
    """How a BMC is reached, and the login there."""
    changing: bool = False
    """Whether it may be changed; a BMC is otherwise only read."""

    @property
    def access(self) -> Access:
        """How the device is reached. This is the only place that decides."""
        if not self.host:
            return "none"
        if self.bmc is not None:
            return "ipmi" if self.bmc.uses_ipmi else "redfish"
        if self.kind == "switch":
            return "nxapi" if self.nxapi else "ssh-cli"
        if self.host == LOCAL_HOST:
            return "local"
        return "srun" if self.login.slurm_job else "ssh"


class Program(Protocol):
    """A program that runs on a device with its input open; closing the input ends it."""

    async def write(self, data: bytes) -> None:
        """Send input. Does not raise if the program has ended: reading reveals that."""
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
        """Start a program that runs until its input is closed, at the latest when the context ends."""
        ...


Connector = Callable[[Target], AbstractAsyncContextManager[Transport]]
"""Opens the only connection to a device. Raises DeviceError."""


Forward = Callable[[Login, str, int], AbstractAsyncContextManager[str]]
"""Opens a Unix socket that leads to a host and port behind the jump host of a login."""


def targets_of(cluster: Cluster, *, changing: bool = False) -> tuple[Target, ...]:
    """Return the devices of a cluster, nodes first, BMCs last. Connections are made only when something is read.

    To change devices, all of them are reached over SSH: NX-API only reads.
    """
    nodes = (
        Target(name=name, host=node.host, login=node.login.over(cluster.login)) for name, node in cluster.nodes.items()
    )
    switches = (_switch(name, switch, cluster, changing=changing) for name, switch in cluster.switches.items())
    bmcs = (
        Target(name=name, host=bmc.host, login=Login(jump=bmc.jump), kind="bmc", bmc=bmc, changing=changing)
        for name, (_, bmc) in cluster.bmcs().items()
    )
    return (*nodes, *switches, *bmcs)


def _switch(name: str, switch: Switch, cluster: Cluster, *, changing: bool) -> Target:
    over_nxapi = switch.access == "nxapi" and not changing
    return Target(
        name=name,
        host=switch.host or "",
        login=switch.login.over(cluster.login),
        kind="switch",
        nxapi=switch.nxapi if over_nxapi else None,
    )
