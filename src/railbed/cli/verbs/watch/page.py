"""The live page beside other work."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Where the page is served; port 0 is a free one."""

    address: str = LOCAL
    port: int = 0
    token: str | None = None


@asynccontextmanager
async def page_beside(folder: Path, request: PageRequest | None) -> AsyncIterator[None]:
    """Serve the page of a run meanwhile, and print its address; without a request do nothing.

    The address may contain a token, so it is printed and never stored.
    """
    if request is None:
        yield
        return
    from railbed.web.page import page_app  # starlette and uvicorn are slow to load, and most runs have no page
    from railbed.web.serve import serving

    ending = asyncio.Event()
    where = {"address": request.address, "port": request.port, "token": request.token}
    async with serving(page_app(folder, ending), ending, **where) as served:
        sys.stderr.write(f"the page of {folder.name}: {served.url}\n")
        sys.stderr.flush()
        yield
