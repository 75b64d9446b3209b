"""An application served beside other work, until its context ends: within seconds, whatever its clients do.

It listens on its address before anything is loaded or stored for it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from railbed.errors import UsageError, os_reason
from railbed.web.access import Access, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp

BACKLOG = 64


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one. Raises UsageError if that is not possible."""
    try:
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(where[:2], family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise UsageError(
            f"{address} is not an address of this machine", hint="`ip addr` lists the addresses of this machine"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot serve on {address} port {port}: {_reason(error)}", hint=_hint(error)) from error


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use"
        case errno.EADDRNOTAVAIL:
            return "it is not an address of this machine"
        case errno.EACCES:
            return "ports below 1024 need root"
    return os_reason(error)


def _hint(error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return "`ip addr` lists the addresses of this machine"
    return "choose another --port, or leave it out for a free one"


LOCAL = "127.0.0.1"
MOST_CONNECTIONS = 64
REQUEST_SECONDS = 20.0
"""A connection that is silent for so long is closed, since it takes a place from others: before a complete request,
or while it takes nothing of an answer."""
END_SECONDS = 2
"""Clients get this long to take the rest of an answer when the server ends."""


@dataclass(frozen=True, slots=True)
class Served:
    """Where an application is served."""

    url: str
    """With the token, if there is one."""
    port: int


class _Server(uvicorn.Server):
    """Leaves signals to the command line."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _Protocol(H11Protocol):
    """Closes connections that are too many, send no request, or do not take their answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of sockets only
        super().connection_made(transport)
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._close_idle, (None, 0))
        if len(self.connections) > MOST_CONNECTIONS + BACKLOG:
            transport.abort()  # an answer to each would need a file descriptor for each

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.cancel()
        super().connection_lost(exc)

    def _close_idle(self, before: tuple[object, int]) -> None:
        """Close a connection on which nothing has moved since the last look, unless we have nothing to send yet."""
        unsent = self.transport.get_write_buffer_size()
        is_stream = self.cycle is not None and not self.cycle.response_complete and not unsent
        if (self.cycle, unsent) == before and not is_stream:
            self.transport.abort()
        else:
            self._waiting = self.loop.call_later(REQUEST_SECONDS, self._close_idle, (self.cycle, unsent))


@asynccontextmanager
async def serving(
    app: ASGIApp,
    ending: asyncio.Event,
    *,
    address: str = LOCAL,
    port: int = 0,
    token: str | None = None,
    listener: socket.socket | None = None,
) -> AsyncIterator[Served]:
    """Serve an application; `ending` is set when it should end its streams.

    Port 0 takes a free one. An address that others can reach gets a token, which is part of the URL. `listener` is a
    socket that listens there already, and is closed here.
    """
    if token is None and not is_loopback(address):
        token = secrets.token_urlsafe(32)
    with listener or listen(address, port) as bound:
        number = int(bound.getsockname()[1])
        server = _Server(_config(Access(app, address, token)))
        task = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            await _until_started(server, task)
            yield Served(_url(address, number, token), number)
        finally:
            # Answers that take too long are cut off now, and uvicorn would print a traceback for each.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            ending.set()
            server.should_exit = True
            await asyncio.shield(task)


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,  # warnings about malformed requests would be written into the terminal
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=END_SECONDS,
        h11_max_incomplete_event_size=16 << 10,
    )


async def _until_started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started:
        if task.done():
            await task
            raise UsageError("the server did not start")
        await asyncio.sleep(0.01)


def _url(address: str, port: int, token: str | None) -> str:
    host = socket.gethostname() if address in ("0.0.0.0", "::") else address  # noqa: S104  (compared, not bound)
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")
