"""Connects to real devices, by the access method of their targets."""

from __future__ import annotations

import ctypes.util
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

from railbed.errors import Unreachable
from railbed.model.limits import DEVICE_SECONDS
from railbed.transport.base import Connector, Forward, Target, Transport
from railbed.transport.local import connect_local
from railbed.transport.srun import SrunConnector

if TYPE_CHECKING:
    from railbed.transport.ssh.connection import SshConnector


@asynccontextmanager
async def live_connector(*, spares: bool = True, timeout: float = DEVICE_SECONDS) -> AsyncIterator[Connector]:
    """Yield a connector to real devices; connections to jump hosts, and programs in a Slurm job, end with it.

    Without `spares`, no step of a job is started before it is needed: for one round of commands. With a longer
    `timeout` than the usual one for a device, logins may also take longer.
    """
    async with AsyncExitStack() as stack, SrunConnector(spares=spares) as srun:

        @cache
        def ssh() -> SshConnector:
            connector = ssh_connector(timeout)
            stack.push_async_exit(connector)
            return connector

        def connect(target: Target) -> AbstractAsyncContextManager[Transport]:
            match target.access:
                case "local":
                    return connect_local(target)
                case "ssh":
                    return ssh().to_shell(target)
                case "srun":
                    return srun.connect(target)
                case "ssh-cli":
                    return ssh().to_command_line(target)
                case "none":
                    raise Unreachable(
                        "the cluster file gives no host for it",
                        hint=f"add `host:` to {target.name} in the cluster file",
                    )
                case _:
                    return _connect_api(target, lambda login, host, port: ssh().forward(login, host, port))

        yield connect


def _connect_api(target: Target, forward: Forward) -> AbstractAsyncContextManager[Transport]:
    """Connect to a device without a command line; each is loaded only if a cluster has one: Python's HTTP is slow."""
    if target.access == "ipmi":
        from railbed.transport.bmc.ipmi import connect_ipmi

        return connect_ipmi(target)
    if target.access == "redfish":
        from railbed.transport.bmc.redfish import connect_redfish

        return connect_redfish(target, forward)
    from railbed.transport.nxapi import connect_nxapi

    return connect_nxapi(target, forward)


def ssh_connector(timeout: float = DEVICE_SECONDS) -> SshConnector:
    """Load asyncssh only here: it is slow to import, and replay, local and Slurm do without it.

    asyncssh searches for two optional C libraries (liboqs, nettle) by running the compiler and the linker: a third of
    its import time. No server requires the algorithms they add (sntrup761 and UMAC).
    """
    find_library = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None  # noqa: ARG005  (the name is part of the call)
    try:
        from railbed.transport.ssh.connection import SshConnector
    finally:
        ctypes.util.find_library = find_library
    return SshConnector(timeout)
