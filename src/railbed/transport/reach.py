"""Chooses how a device is reached: this machine directly, others over SSH."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from railbed.model.cluster import LOCAL_HOST
from railbed.transport.base import Reach, Target, Transport
from railbed.transport.local import reach_local


@asynccontextmanager
async def live_reach() -> AsyncIterator[Reach]:
    """Yield a reach to real machines; connections to jump hosts end with it."""
    # Imported here because asyncssh takes a quarter of a second to load, which replay and local do not need.
    from railbed.transport.ssh import SshReach

    async with SshReach() as ssh:

        def reach(target: Target) -> AbstractAsyncContextManager[Transport]:
            return reach_local(target) if target.host == LOCAL_HOST else ssh(target)

        yield reach
