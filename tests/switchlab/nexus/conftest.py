"""What the tests of the emulated Nexus share."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from switchlab.common.logins import Logins
from switchlab.nexus.commands.loader import apply_lines
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.service import Emulator, Endpoints
from switchlab.nexus.session import Session
from tests.switchlab.nexus.support import LOSSLESS, PASSWORD

StartEmulator = Callable[..., AbstractAsyncContextManager[Emulator]]


@pytest.fixture
def switch() -> Switch:
    return Switch(PLATFORMS["n9k"])


@pytest.fixture
def session(switch: Switch) -> Session:
    return Session(switch)


@pytest.fixture
def lossless() -> Switch:
    """A switch that is configured for RoCE, with two nodes on ports 1 and 2."""
    switch = Switch(PLATFORMS["n9k"])
    assert apply_lines(switch, LOSSLESS.splitlines()) == []
    switch.set_link("Ethernet1/1", up=True)
    switch.set_link("Ethernet1/2", up=True)
    return switch


@pytest.fixture
def emulate(tmp_path: Path) -> StartEmulator:
    @asynccontextmanager
    async def start(
        switch: Switch,
        *,
        idle_seconds: float = 30.0,
        authorized_keys: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncIterator[Emulator]:
        logins = Logins(passwords={"admin": PASSWORD}, authorized_keys=authorized_keys)
        endpoints = Endpoints(control=tmp_path / "control")
        key = tmp_path / "host_key"
        async with Emulator(switch, logins, endpoints, host_key=key, tls=tls, idle_seconds=idle_seconds) as emulator:
            yield emulator

    return start
