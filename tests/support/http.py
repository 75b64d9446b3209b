"""Requests byte by byte, as browsers never send them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        import json

        return json.loads(self.body)


async def get(
    port: int, path: str = "/", *, method: str = "GET", host: str | None = "127.0.0.1", **headers: str
) -> Answer:
    """Send a request; `_` in the name of a header stands for `-`."""
    lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else [])]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return await exchange(port, ("\r\n".join([*lines, "Connection: close", "", ""])).encode("latin-1"))


async def exchange(port: int, data: bytes, address: str = "127.0.0.1") -> Answer:
    """Send bytes and return the answer, up to its end."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection(address, port)
        writer.write(data)
        reply = await reader.read()
        writer.close()
    return parse(reply)


def parse(reply: bytes) -> Answer:
    head, _, body = reply.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return Answer(int(first.split()[1]), headers, body)


def _unchunked(body: bytes) -> bytes:
    complete = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        complete, body = complete + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return complete
