"""Open connections of a listener, which end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Connections:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()

    @contextmanager
    def serve(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        """Track the current task while it serves a client; a client that is gone or too slow is not an error."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        except (TimeoutError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def end(self, listener: asyncio.Server) -> None:
        """Stop listening and end every connection."""
        listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
