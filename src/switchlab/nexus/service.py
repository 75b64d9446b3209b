"""A switch with all its services, started and ended together."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from switchlab.common.hostkey import ensure_host_key
from switchlab.common.logins import Logins
from switchlab.nexus.commands.loader import boot
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.control import ControlService
from switchlab.nexus.servers.nxapi import NxapiService
from switchlab.nexus.servers.ssh import SshService


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """Where the services listen; port 0 chooses a free one."""

    host: str = "127.0.0.1"
    ssh_port: int = 0
    nxapi_port: int = 0
    control: Path | None = None


class Emulator:
    """An asynchronous context manager: the switch answers while it is open."""

    def __init__(
        self,
        switch: Switch,
        logins: Logins,
        endpoints: Endpoints,
        *,
        host_key: Path,
        tls: ssl.SSLContext | None = None,
        idle_seconds: float = 600.0,
    ) -> None:
        self.switch = switch
        self.ssh = SshService(switch, logins, idle_seconds=idle_seconds)
        self.nxapi = NxapiService(switch, logins, tls=tls)
        self.control = ControlService(switch)
        self.ssh_port = 0
        self.rejected: list[str] = []
        self._endpoints = endpoints
        self._host_key = host_key

    async def __aenter__(self) -> Self:
        if self.switch.startup is not None:
            self.rejected = boot(self.switch)
        endpoints = self._endpoints
        self.ssh_port = await self.ssh.start(endpoints.host, endpoints.ssh_port, ensure_host_key(self._host_key))
        await self.nxapi.start(endpoints.host, endpoints.nxapi_port)
        if endpoints.control is not None:
            await self.control.start(endpoints.control)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.control.close()
        await self.nxapi.close()
        await self.ssh.close()
