"""A page or another application, served from a thread, for tests and tools that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.types import ASGIApp

from railbed.web.page import page_app
from railbed.web.serve import Served, serving


@contextmanager
def served_app(
    make: Callable[[asyncio.Event], ASGIApp], *, port: int = 0, token: str | None = None
) -> Iterator[Served]:
    """Serve an application on this machine; port 0 is a free one."""
    started, places = threading.Event(), []
    loop, ending = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        try:
            async with serving(make(ending), ending, port=port, token=token) as place:
                places.append(place)
                started.set()
                await ending.wait()
        finally:
            started.set()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        started.wait()
        yield places[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()


@contextmanager
def served_page(folder: Path, *, port: int = 0, token: str | None = None) -> Iterator[Served]:
    """Serve the page of a run."""
    with served_app(lambda ending: page_app(folder, ending), port=port, token=token) as place:
        yield place
