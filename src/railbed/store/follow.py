"""The records of a run in progress: existing ones first, then each as it is written, until the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from railbed.model.regular import open_regular
from railbed.store.run import RECORDS, is_being_written

POLL_SECONDS = 0.2
LINES_AT_ONCE = 500


async def follow(folder: Path, *, in_progress: Callable[[Path], bool] | None = None) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a run's records until the run has ended, normally or not.

    `in_progress` decides whether more may follow; by default, whether the process that writes the run is alive.

    Waits for the rest of a line that is partly written; a line that is never finished is ignored.
    """
    try:
        file = open_regular(folder / RECORDS)
    except FileNotFoundError:
        return
    with file:
        more, line, count = True, b"", 0
        while more:
            # Checked before reading, so that nothing written just before the end is missed.
            more = (in_progress or is_being_written)(folder)
            while part := file.readline():
                line += part
                if line.endswith(b"\n"):
                    yield line
                    line, count = b"", count + 1
                    if count % LINES_AT_ONCE == 0:
                        await asyncio.sleep(0)  # a long history must not delay Ctrl-C
            if more:
                await asyncio.sleep(POLL_SECONDS)
