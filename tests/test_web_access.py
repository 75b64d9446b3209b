"""Who may read from our servers, and how they end: with real connections."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from railbed.errors import UsageError
from railbed.web import serve
from railbed.web.access import Access, host_name, is_loopback
from railbed.web.serve import Served, serving
from tests.support.http import exchange, get

TOKEN = "a" * 43


async def hello(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


@asynccontextmanager
async def server(*, token: str | None = None, address: str = "127.0.0.1") -> AsyncIterator[Served]:
    ending = asyncio.Event()

    async def endless(_request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"begun\n"
            await ending.wait()

        return StreamingResponse(parts())

    async def flood(_request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65536

        return StreamingResponse(parts())

    app = Starlette(routes=[Route("/", hello), Route("/endless", endless), Route("/flood", flood)])
    async with serving(app, ending, address=address, token=token) as served:
        yield served


async def test_the_machine_itself_may_read() -> None:
    async with server() as served:
        assert served.url == f"http://127.0.0.1:{served.port}/"
        answer = await get(served.port)
        assert (answer.status, answer.text) == (200, "hello")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert (await get(served.port, method="HEAD")).body == b""
        # forwarded by SSH to another port
        assert (await get(served.port, host="localhost:8080")).status == 200
        assert (await get(served.port, host="[::1]:8080")).status == 200


@pytest.mark.parametrize(
    ("headers", "status", "sentence"),
    [
        ({"host": "evil.example"}, 421, "not evil.example"),
        ({"host": "evil.example:80"}, 421, "not evil.example"),
        ({"host": "127.0.0.1.evil.example"}, 421, "not 127.0.0.1.evil.example"),
        ({"host": "localhost@evil.example"}, 400, "valid Host"),
        ({"host": "192.168.1.9"}, 421, "not 192.168.1.9"),
        ({"host": ""}, 400, "valid Host"),
        ({"host": "localhost."}, 421, "not localhost."),
        ({"host": "[::ffff:127.0.0.1]"}, 421, "not ::ffff:127.0.0.1"),
        ({"host": "localhost,evil.example"}, 421, "not localhost,evil.example"),
        ({"host": "localhost:x"}, 400, "valid Host"),
        ({"origin": "http://evil.example"}, 403, "Pages of http://evil.example"),
        ({"origin": "null"}, 403, "Pages of null"),
        ({"origin": "https://127.0.0.1"}, 403, "Pages of https://127.0.0.1"),
        ({"origin": "http://127.0.0.1:1"}, 403, "Pages of http://127.0.0.1:1"),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403, "Pages of other sites"),
        (
            {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
            403,
            "other sites",
        ),
        ({"method": "POST"}, 405, "only be read"),
        ({"method": "DELETE"}, 405, "only be read"),
        ({"method": "OPTIONS"}, 405, "only be read"),
        ({"path": f"/?{'x' * 5000}"}, 414, "at most 4096"),
    ],
)
async def test_what_is_refused(headers: dict[str, str], status: int, sentence: str) -> None:
    async with server() as served:
        answer = await get(served.port, **headers)
        assert (answer.status, sentence in answer.text) == (status, True), answer.text
        assert answer.text.count("\n") == 1
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


async def test_a_link_from_another_site_may_lead_here() -> None:
    async with server() as served:
        navigation = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
        assert (await get(served.port, **navigation)).status == 200
        own = f"127.0.0.1:{served.port}"
        assert (await get(served.port, host=own, origin=f"http://{own}")).status == 200


async def test_two_host_headers_and_no_http(caplog: pytest.LogCaptureFixture) -> None:
    async with server() as served:
        twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        assert (await exchange(served.port, twice)).status == 400
        assert (await exchange(served.port, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")).status == 400
        elsewhere = b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert (await exchange(served.port, elsewhere)).status == 404
        assert (await get(served.port)).status == 200
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_the_token_is_exchanged_for_a_cookie() -> None:
    async with server(token=TOKEN) as served:
        assert served.url.endswith(f"/?token={TOKEN}")
        assert (await get(served.port)).status == 401
        assert (await get(served.port, f"/?token={'b' * 43}")).status == 403
        assert (await get(served.port, "/?token=")).status == 401
        assert (await get(served.port, f"/?token={TOKEN}", method="HEAD")).status == 401
        answer = await get(served.port, f"/?token={TOKEN}")
        assert (answer.status, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        session = cookie.partition(";")[0]
        assert (await get(served.port, cookie=session)).text == "hello"
        assert session.startswith(f"railbed-{served.port}=")
        again = await get(served.port, f"//foreign.example/?token={TOKEN}", cookie=session)
        assert (again.status, again.headers["location"]) == (303, "/")
        # a second browser may use the link as well
        assert (await get(served.port, f"/?token={TOKEN}")).status == 303
        assert (await get(served.port, cookie=f"{session}x")).status == 401
        assert (await get(served.port, cookie=f"railbed-{served.port}=ü; ;=,")).status == 401
        assert (await get(served.port, authorization=f"Bearer {TOKEN}")).text == "hello"
        assert (await get(served.port, authorization="Bearer ä")).status == 401
        # a cookie does not help a foreign page
        assert (await get(served.port, cookie=session, origin="http://evil.example")).status == 403


async def test_another_address_gets_a_token_by_itself() -> None:
    async with server(address="0.0.0.0") as served:  # noqa: S104
        token = urlsplit(served.url).query
        assert len(token) > 40
        assert (await get(served.port)).status == 401
        assert (await get(served.port, host="192.0.2.7")).status == 401
        assert (await get(served.port, host="evil.example")).status == 421
    with pytest.raises(ValueError, match="needs a token"):
        Access(Starlette(), "192.0.2.1", None)


async def test_an_address_or_port_that_cannot_be_served() -> None:
    async with server() as served:
        with pytest.raises(UsageError, match="the port is in use"):
            async with serving(Starlette(), asyncio.Event(), port=served.port):
                pass
    for address in ("192.0.2.1", "no such host"):
        with pytest.raises(UsageError, match="not an address of this machine"):
            async with serving(Starlette(), asyncio.Event(), address=address):
                pass


async def test_it_ends_although_clients_hang() -> None:
    async with server() as served:
        streams = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(4)]
        for (_, writer), request in zip(streams, ("GET /endless", "GET /flood", "GE", ""), strict=True):
            writer.write(
                f"{request} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() if " " in request else request.encode()
            )
        await streams[0][0].readuntil(b"begun")
        began = time.process_time()
    assert time.process_time() - began < 5
    for _, writer in streams:
        writer.close()


async def test_an_answer_that_takes_too_long_is_cut_off_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serve, "END_SECONDS", 0)
    begun = asyncio.Event()

    async def slow(_request: Request) -> Response:
        begun.set()
        await asyncio.Event().wait()
        return Response()

    async with serving(Starlette(routes=[Route("/", slow)]), asyncio.Event()) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await begun.wait()
    writer.close()
    assert caplog.records == []


async def test_silent_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.1)
    async with server() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET / HT")
        assert await reader.read() == b""
        writer.close()


async def test_clients_that_take_no_answer_are_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.1)
    closed = asyncio.Event()

    async def flood(_request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 65536
                    await asyncio.sleep(0)
            finally:
                closed.set()

        return StreamingResponse(parts())

    async with serving(Starlette(routes=[Route("/", flood)]), asyncio.Event()) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(60):
                await closed.wait()


async def test_streams_without_news_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.01)
    async with server() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"begun")
        other, silent = await asyncio.open_connection("127.0.0.1", served.port)
        assert await other.read() == b"", "a silent connection is closed meanwhile"
        assert not reader.at_eof()
        writer.close()
        silent.close()


async def test_connections_beyond_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(serve, "BACKLOG", 2)
    async with server() as served:
        streams = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(5)]
        assert await streams[4][0].read() == b""
        for _, writer in streams:
            writer.close()


async def test_too_many_connections_get_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 3)
    async with server() as served:
        streams = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
        for reader, writer in streams:
            writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.read(10)
        assert (await get(served.port)).status == 503
        for _, writer in streams:
            writer.close()


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("LocalHost:1", "localhost"),
        ("[::1]:9", "::1"),
        ("a/b", None),
        ("a:99999", None),
        ("[::1", None),
        ("a b", "a b"),
    ],
)
def test_host_names(host: str, name: str | None) -> None:
    assert host_name(host) == name


def test_loopback() -> None:
    assert [is_loopback(name) for name in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "::", "x")] == [  # noqa: S104
        *[True] * 4,
        *[False] * 3,
    ]
