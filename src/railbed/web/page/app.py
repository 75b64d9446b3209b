"""The addresses of the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from railbed.web.access import AccessRefusal
from railbed.web.page.live import news
from railbed.web.page.parameters import charts_of, filter_of, number, window_of
from railbed.web.page.source import PageData

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
MOST_LIVE = 24
"""Pages that get new points at the same time."""


def page_app(folder: Path, ending: asyncio.Event) -> Starlette:
    """Return the application for a run; its streams end when `ending` is set."""
    page = Page(PageData(folder), ending)
    app = Starlette(
        routes=[
            Route("/", page.index),
            Route("/api/run", page.run),
            Route("/api/drawn", page.draw),
            Route("/api/links", page.links),
            Route("/api/live", page.live),
            Route("/static/{name:path}", page.static),
        ],
        exception_handlers={AccessRefusal: _refuse, HTTPException: _explain},
    )
    app.router.redirect_slashes = False
    return app


class Page:
    """Answers requests; the files of the page are read once, so that no request can reach another file."""

    def __init__(self, source: PageData, ending: asyncio.Event) -> None:
        self._source = source
        self._ending = ending
        self._watching = 0
        self._files = {
            path.relative_to(STATIC).as_posix(): (path.read_bytes(), TYPES[path.suffix])
            for path in sorted(STATIC.rglob("*"))
            if path.suffix in TYPES
        }

    async def index(self, _request: Request) -> Response:
        """Return the page."""
        return self._file("index.html")

    async def static(self, request: Request) -> Response:
        """Return a file of the page."""
        return self._file(request.path_params["name"])

    async def run(self, _request: Request) -> Response:
        """Return the run, its charts, series, marks and topology."""
        return _json(await self._source.describe())

    async def draw(self, request: Request) -> Response:
        """Return the extremes of every bucket."""
        query = request.query_params
        charts, chosen, window = charts_of(query), filter_of(query), window_of(query)
        drawn = await self._source.draw(charts, chosen, window)
        return _json({"start": window.start, "end": window.end, "buckets": window.buckets, "charts": drawn})

    async def links(self, request: Request) -> Response:
        """Return the rates of the links."""
        return _json(await self._source.links(window_of(request.query_params)))

    async def live(self, request: Request) -> Response:
        """Return new points as they come."""
        query = request.query_params
        charts, chosen, since = charts_of(query), filter_of(query), number(query, "since")
        if self._watching >= MOST_LIVE:
            raise AccessRefusal(503, f"{MOST_LIVE} pages are already open: close one, and reload this one.")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")

        self._watching += 1
        points = news(self._source, charts, chosen, since, self._ending)
        return _Stream(points, self._leave)

    def _leave(self) -> None:
        self._watching -= 1

    def _file(self, name: str) -> Response:
        if name not in self._files:
            raise AccessRefusal(404, "There is nothing at this address.")
        data, kind = self._files[name]
        return Response(data, media_type=kind)


class _Stream(StreamingResponse):
    """Server-sent events; `on_end` is called once, also if the client has left before the first one."""

    def __init__(self, parts: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        super().__init__(parts, media_type="text/event-stream")
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the client leaves or there are no more."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


def _json(data: object) -> Response:
    return Response(to_json(data, inf_nan_mode="null"), media_type="application/json")


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AccessRefusal)
    return PlainTextResponse(f"{error.sentence}\n", error.status)


async def _explain(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = "There is nothing at this address." if error.status_code == 404 else error.detail
    return PlainTextResponse(f"{sentence}\n", error.status_code)
