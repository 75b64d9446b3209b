"""The records of a run while it goes on: what there is, then each as it is written, until the run has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from railbed.store.run import RECORDS, is_being_written

POLL_SECONDS = 0.2
LINES_AT_ONCE = 500


async def follow(folder: Path) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a run's records; ends when the run has ended, in order or not.

    A line of which only the beginning is written is waited for. One that was never finished is passed over.
    """
    try:
        file = (folder / RECORDS).open("rb")
    except FileNotFoundError:
        return
    with file:
        goes_on, line, count = True, b"", 0
        while goes_on:
            # Asked before reading: then all that was written before the end is read, too.
            goes_on = is_being_written(folder)
            while part := file.readline():
                line += part
                if line.endswith(b"\n"):
                    yield line
                    line, count = b"", count + 1
                    if count % LINES_AT_ONCE == 0:
                        await asyncio.sleep(0)  # a long past must not keep Ctrl-C waiting
            if goes_on:
                await asyncio.sleep(POLL_SECONDS)
