"""NX-API: commands over HTTP, as JSON-RPC and in the `ins_api` form. It listens only while `feature nxapi` is on."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import secrets
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus

from switchlab.common.connections import Connections
from switchlab.common.logins import Logins
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.nxapi_forms import answer_ins_api, answer_json_rpc
from switchlab.nexus.session import Session

MAX_BODY = 1 << 20
MAX_HEADER = 1 << 15
REQUEST_SECONDS = 30.0
COOKIE = "nxapi_auth"
COOKIE_SECONDS = 600.0
MAX_COOKIES = 1000


class HttpFault(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Cookies:
    """Logins of the last ten minutes: a client that returns its cookie is not authenticated again."""

    def __init__(self) -> None:
        self._issued: dict[str, tuple[str, float]] = {}

    def issue(self, user: str) -> str:
        """Return a new cookie of a user; the oldest is forgotten if there are many."""
        if len(self._issued) >= MAX_COOKIES:
            del self._issued[next(iter(self._issued))]
        token = secrets.token_urlsafe(24)
        self._issued[token] = (user, time.monotonic() + COOKIE_SECONDS)
        return token

    def user(self, header: str) -> str:
        """Return the user of a Cookie header; empty if it is unknown or too old."""
        pairs = (pair.strip().partition("=") for pair in header.split(";"))
        user, expires = self._issued.get(next((value for name, _, value in pairs if name == COOKIE), ""), ("", 0.0))
        return user if time.monotonic() < expires else ""


class NxapiService:
    """An HTTP listener that follows the configuration."""

    def __init__(self, switch: Switch, logins: Logins, *, tls: ssl.SSLContext | None = None) -> None:
        self._switch = switch
        self._logins = logins
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._address = ("127.0.0.1", 0)
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connections = Connections()
        self._cookies = Cookies()

    async def start(self, host: str, port: int) -> None:
        """Begin to follow `feature nxapi`; with port 0 the port is chosen when the listener first opens."""
        self._address = host, port
        self._switch.observers.append(self._wake.set)
        await self._sync()
        self._task = asyncio.create_task(self._follow())

    @property
    def port(self) -> int | None:
        """The port while the listener is open."""
        return self._address[1] if self._server is not None else None

    async def settle(self) -> int | None:
        """Wait until the listener matches the configuration; return its port."""
        while self._wake.is_set():
            self._settled.clear()
            await self._settled.wait()
        return self.port

    async def close(self) -> None:
        self._switch.observers.remove(self._wake.set)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stop()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._sync()
            self._settled.set()

    async def _sync(self) -> None:
        wanted = "nxapi" in self._switch.running.features
        if wanted and self._server is None:
            host, port = self._address
            self._server = await asyncio.start_server(self._accept, host, port, ssl=self._tls, limit=MAX_HEADER)
            self._address = host, self._server.sockets[0].getsockname()[1]
        elif not wanted:
            await self._stop()

    async def _stop(self) -> None:
        if self._server is None:
            return
        await self._connections.end(self._server)
        self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._connections.serve(writer):
            if not self._switch.is_reachable:
                return
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(await self._respond(reader))
                await writer.drain()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes:
        """Answer one request; every connection carries one."""
        try:
            method, path, headers = await _read_head(reader)
            user, cookie = self._authenticate(headers)
            if path != "/ins":
                raise HttpFault(HTTPStatus.NOT_FOUND)
            if method != "POST":
                raise HttpFault(HTTPStatus.METHOD_NOT_ALLOWED)
            status, document = self._answer(await _read_body(reader, headers), user)
        except HttpFault as fault:
            return _response(
                fault.status, f"<html><h1>{fault.status.value} {fault.status.phrase}</h1></html>".encode(), "text/html"
            )
        return _response(status, json.dumps(document).encode(), "application/json", cookie=cookie)

    def _authenticate(self, headers: Mapping[str, str]) -> tuple[str, str]:
        """Return the user, and a cookie if the login is new."""
        if user := self._cookies.user(headers.get("cookie", "")):
            return user, ""
        scheme, _, encoded = headers.get("authorization", "").partition(" ")
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise HttpFault(HTTPStatus.UNAUTHORIZED) from error
        if scheme.lower() != "basic" or not self._logins.check(user, password):
            raise HttpFault(HTTPStatus.UNAUTHORIZED)
        return user, self._cookies.issue(user)

    def _answer(self, body: bytes, user: str) -> tuple[HTTPStatus, object]:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise HttpFault(HTTPStatus.BAD_REQUEST) from error
        session = Session(self._switch, user=user)
        session.context.dont_ask = True
        if isinstance(request, dict) and isinstance(request.get("ins_api"), dict):
            return answer_ins_api(session, request["ins_api"])
        return answer_json_rpc(session, request)


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]]:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise HttpFault(HTTPStatus.BAD_REQUEST) from error
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise HttpFault(HTTPStatus.BAD_REQUEST)
    pairs = (line.partition(":") for line in lines if line)
    return words[0], words[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise HttpFault(HTTPStatus.LENGTH_REQUIRED)
    if len(length) > 9 or int(length) > MAX_BODY:
        raise HttpFault(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    try:
        return await reader.readexactly(int(length))
    except asyncio.IncompleteReadError as error:
        raise HttpFault(HTTPStatus.BAD_REQUEST) from error


def _response(status: HTTPStatus, body: bytes, kind: str, *, cookie: str = "") -> bytes:
    authenticate = 'WWW-Authenticate: Basic realm="Secure Zone"\r\n' if status is HTTPStatus.UNAUTHORIZED else ""
    login = f"Set-Cookie: {COOKIE}={cookie}; Secure; HttpOnly;\r\n" if cookie else ""
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n{authenticate}{login}"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
