"""What the tests of the emulated ESXi host share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from switchlab.common.logins import Logins
from switchlab.esxi.model.host import Host
from switchlab.esxi.service import HostEmulator, Listening
from tests.switchlab.esxi.support import PASSWORD

StartHost = Callable[..., AbstractAsyncContextManager[HostEmulator]]


@pytest.fixture
def emulate(tmp_path: Path) -> StartHost:
    @asynccontextmanager
    async def start(host: Host, *, authorized_keys: Path | None = None) -> AsyncIterator[HostEmulator]:
        logins = Logins(passwords={"root": PASSWORD}, authorized_keys=authorized_keys)
        listening = Listening(control=tmp_path / "control")
        async with HostEmulator(host, logins, listening, host_key=tmp_path / "host_key", idle_seconds=30.0) as emulator:
            yield emulator

    return start
