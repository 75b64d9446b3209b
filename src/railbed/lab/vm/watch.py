"""Follow long work in its log, and end it when it stalls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from railbed.lab.host import HostFault
from railbed.lab.steps import Patience, size_of

QUIET_SECONDS = 600.0
"""How long the log may stay unchanged."""
LOOK_SECONDS = 1.0


async def follow_log(
    work: asyncio.Task[str], log: Path, stage: Callable[[Path], str], *, most: float
) -> AsyncGenerator[str, None]:
    """Yield each stage of some work from its log until it ends; cancel work that stalls or is abandoned."""
    patience = Patience(lambda: size_of(log), quiet=QUIET_SECONDS, most=most)
    last = ""
    try:
        while not (await asyncio.wait({work}, timeout=LOOK_SECONDS))[0]:
            if (now := stage(log)) != last:
                yield now
                last = now
            if why := patience.at_end():
                raise HostFault(f"{why}; its last output: {last}")
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
