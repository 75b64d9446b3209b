"""Chooses how a device is reached: this machine directly, others over SSH."""

from __future__ import annotations

import ctypes.util
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from railbed.model.cluster import LOCAL_HOST
from railbed.transport.base import Reach, Target, Transport
from railbed.transport.local import reach_local

if TYPE_CHECKING:
    from railbed.transport.ssh import SshReach


@asynccontextmanager
async def live_reach() -> AsyncIterator[Reach]:
    """Yield a reach to real machines; connections to jump hosts end with it."""
    async with _ssh() as ssh:

        def reach(target: Target) -> AbstractAsyncContextManager[Transport]:
            return reach_local(target) if target.host == LOCAL_HOST else ssh(target)

        yield reach


def _ssh() -> SshReach:
    """Load asyncssh only here, since it takes a while, which replay and local do not need.

    It looks for two optional C libraries (liboqs, nettle) by running the compiler and the linker, which takes a third
    of that while; what they add, sntrup761 and UMAC, no server asks for alone.
    """
    find_library = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None  # noqa: ARG005  (the name is part of the call)
    try:
        from railbed.transport.ssh import SshReach
    finally:
        ctypes.util.find_library = find_library
    return SshReach()
