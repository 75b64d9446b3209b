"""A host with all its services, started and ended together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from switchlab.common.hostkey import ensure_host_key
from switchlab.common.logins import Logins
from switchlab.esxi.model.host import Host
from switchlab.esxi.servers.control import HostControl
from switchlab.esxi.servers.ssh import EsxiSsh


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where the services listen; port 0 chooses a free one."""

    address: str = "127.0.0.1"
    ssh_port: int = 0
    control: Path | None = None


class HostEmulator:
    """An asynchronous context manager: the host answers while it is open."""

    def __init__(
        self, host: Host, logins: Logins, listening: Listening, *, host_key: Path, idle_seconds: float = 900.0
    ) -> None:
        self.host = host
        self.ssh = EsxiSsh(host, logins, idle_seconds=idle_seconds)
        self.control = HostControl(host)
        self.ssh_port = 0
        self._listening = listening
        self._host_key = host_key

    async def __aenter__(self) -> Self:
        listening = self._listening
        self.ssh_port = await self.ssh.start(listening.address, listening.ssh_port, ensure_host_key(self._host_key))
        if listening.control is not None:
            await self.control.start(listening.control)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.control.close()
        await self.ssh.close()
