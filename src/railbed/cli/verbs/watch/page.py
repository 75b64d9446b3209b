"""The live page beside other work."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from railbed.cli.verbs.watch.token import own_token
from railbed.web.listen import listen

LOCAL = "127.0.0.1"
Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Where the page is served; port 0 is a free one."""

    address: str = LOCAL
    port: int = 0
    token: str | None = None
    listener: socket.socket | None = None
    """If it listens already."""


def local_page() -> PageRequest:
    """Return the page on this machine; it asks for the user's own token if there is one."""
    return PageRequest(token=own_token())


def show_line(line: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextmanager
def listening(request: PageRequest | None) -> Iterator[PageRequest | None]:
    """Listen before a run is created, so that an address that cannot be served leaves no run behind."""
    if request is None:
        yield None
        return
    with listen(request.address, request.port) as listener:
        yield replace(request, listener=listener)


@asynccontextmanager
async def page_beside(folder: Path | None, request: PageRequest | None, show: Show = show_line) -> AsyncIterator[None]:
    """Serve the page of a run meanwhile, and show its address; without a folder or a request do nothing.

    The address may contain a token, so it is shown and never stored.
    """
    if folder is None or request is None:
        yield
        return
    from railbed.web.page import page_app  # starlette and uvicorn are slow to load, and most runs have no page
    from railbed.web.serve import serving

    ending = asyncio.Event()
    app = page_app(folder, ending)
    server = serving(
        app,
        ending,
        address=request.address,
        port=request.port,
        token=request.token,
        listener=request.listener,
    )
    async with server as served:
        show(f"the page of {folder.name}: {served.url}")
        yield
