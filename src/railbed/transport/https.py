"""HTTPS requests to a device: the certificate is verified before anything is sent, and answers are limited in size."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import io
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import TYPE_CHECKING, Protocol, cast

from railbed.errors import (
    DeviceError,
    HostKeyChanged,
    HostKeyUnknown,
    LoginRefused,
    TimedOut,
    Unreachable,
)
from railbed.model.reading import MAX_OUTPUT_BYTES
from railbed.model.text import expand_home
from railbed.transport.batch import CHUNK, PrintsTooMuch

if TYPE_CHECKING:
    import socket

CONNECT_SECONDS = 10.0
MAX_ANSWER_BYTES = 2 * MAX_OUTPUT_BYTES
"""JSON writes the line ends of a text as two bytes."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """One answer, complete."""

    status: int
    reason: str
    headers: Message
    body: bytes


class HttpsTrust(Protocol):
    """A part of the cluster file that says where a server listens and which certificate to accept."""

    @property
    def open_port(self) -> int: ...
    @property
    def ca(self) -> str | None: ...
    @property
    def fingerprint(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWords:
    """What messages call a server and its part of the cluster file."""

    device: str
    key: str
    closed: str
    """What to look at if nothing listens on its port."""


NXAPI_WORDS = ServerWords(
    device="switch",
    key="nxapi",
    closed="nothing listens on this port there: is `feature nxapi` on, and is this its HTTPS port (`show nxapi`)?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsServer:
    """A server and the certificate that it must present. Every request has a connection of its own."""

    host: str
    trust: HttpsTrust
    words: ServerWords = NXAPI_WORDS
    tunnel: str = ""
    """Unix socket that leads to the server through a jump host; empty for a direct connection."""
    context: ssl.SSLContext = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "context", _context(self.trust, self.words))

    @property
    def place(self) -> str:
        """The server, for messages."""
        return f"{self.host} port {self.trust.open_port}"

    async def post(self, path: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Send one request and return the answer. Raises DeviceError or PrintsTooMuch."""
        return await self._send("POST", path, {"Content-Length": str(len(body)), **headers}, body)

    async def get(self, path: str, headers: Mapping[str, str]) -> HttpAnswer:
        """Read one path and return the answer, which may be a redirect: none is followed."""
        return await self._send("GET", path, headers, b"")

    async def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        reader, writer = await self._connect()
        try:
            writer.write(self._head(method, path, headers) + body)
            await writer.drain()
            answer = await _read_to_end(reader)
        except OSError as error:
            raise Unreachable(f"{self.place} broke off the connection: {_reason(error)}") from error
        finally:
            writer.transport.abort()  # a server that froze would not confirm a proper end
        return parse_answer(answer, self.place)

    def _head(self, method: str, path: str, headers: Mapping[str, str]) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = {"Host": f"{host}:{self.trust.open_port}", "Connection": "close", **headers}
        return "".join(
            [f"{method} {path} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in lines.items()), "\r\n"]
        ).encode("ascii")

    async def _connect(self) -> Streams:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await self._open(self.context)
        except ssl.SSLCertVerificationError as error:
            raise await self._explain_distrust(error) from error
        except OSError as error:
            raise self._explain(error) from error
        except ValueError as error:
            raise Unreachable(f"{self.host} is not the name of a host: {error}") from error
        if self.trust.fingerprint and (shown := _fingerprint(writer)) != self.trust.fingerprint.upper():
            writer.transport.abort()
            raise HostKeyChanged(
                f"the certificate of {self.place} is not the one in the cluster file: its fingerprint is {shown}",
                hint=f"if the {self.words.device} has a new certificate, correct `fingerprint:` under "
                f"`{self.words.key}:`; if not, somebody may be intercepting the connection",
            )
        return reader, writer

    async def _open(self, context: ssl.SSLContext) -> Streams:
        name = self.host.partition("%")[0]
        if self.tunnel:
            return await asyncio.open_unix_connection(self.tunnel, ssl=context, server_hostname=name)
        return await asyncio.open_connection(self.host, self.trust.open_port, ssl=context, server_hostname=name)

    async def _explain_distrust(self, error: ssl.SSLCertVerificationError) -> DeviceError:
        """Return why a certificate was not accepted, with its fingerprint to compare."""
        shown = await self._presented_fingerprint()
        device, key = self.words.device, self.words.key
        pin = f"if `{shown}` is the fingerprint of the {device}'s certificate, pin it: `{key}: {{fingerprint: …}}`; "
        return HostKeyUnknown(
            f"the certificate of {self.place} is not trusted: {error.verify_message}",
            hint=(pin if shown else "")
            + f"for a certificate of your own authority, name the authority's file: `{key}: {{ca: FILE}}`",
        )

    async def _presented_fingerprint(self) -> str:
        """Connect once more, without trust, only to read the certificate; nothing is sent."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, writer = await self._open(_without_trust())
        except OSError:
            return ""
        try:
            return _fingerprint(writer)
        finally:
            writer.transport.abort()

    def _explain(self, error: OSError) -> DeviceError:
        if isinstance(error, TimeoutError):
            return TimedOut(
                f"no answer from {self.place} within {CONNECT_SECONDS:g} s",
                hint=f"is it on, is {self.host} its address, does a firewall drop the packets?",
            )
        if isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError):
            return Unreachable(
                f"{self.place} does not offer TLS that this machine accepts: {_reason(error)}",
                hint="plain HTTP is never used, since it would reveal the password",
            )
        refused = isinstance(error, ConnectionRefusedError)
        return Unreachable(
            f"{self.place} cannot be reached: {_reason(error)}",
            hint=self.words.closed if refused else f"is it on, and is {self.host} its address?",
        )


def parse_answer(data: bytes, place: str) -> HttpAnswer:
    """Return what a server at some place sent as an answer; raise Unreachable if it is none, or not all of one."""
    if not data:
        raise Unreachable(f"{place} closed the connection without an answer")
    response = http.client.HTTPResponse(cast("socket.socket", _Received(data)))
    try:
        response.begin()
        return HttpAnswer(
            status=response.status, reason=response.reason, headers=response.headers, body=response.read()
        )
    except (http.client.IncompleteRead, OverflowError) as error:
        raise Unreachable(f"{place} broke off its answer") from error
    except (http.client.HTTPException, ValueError) as error:
        raise Unreachable(f"{place} is not an HTTPS server: it sent something else") from error
    finally:
        response.close()


class _Received:
    """What was received, in the form that http.client reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        assert mode == "rb"
        return io.BytesIO(self._data)


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    answer = bytearray()
    while chunk := await reader.read(CHUNK):
        answer += chunk
        if len(answer) > MAX_ANSWER_BYTES:
            raise PrintsTooMuch
    return bytes(answer)


def _context(trust: HttpsTrust, words: ServerWords) -> ssl.SSLContext:
    if trust.fingerprint:
        return _without_trust()
    try:
        return ssl.create_default_context(cafile=str(expand_home(trust.ca)) if trust.ca else None)
    except OSError as error:
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else _reason(error)
        raise LoginRefused(
            f"the certificate authorities in {trust.ca} cannot be read: {reason}",
            hint=f"correct `ca:` under `{words.key}:` in the cluster file",
        ) from error


def _without_trust() -> ssl.SSLContext:
    """Return a context that accepts any certificate: the caller compares its fingerprint, or sends nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _fingerprint(writer: asyncio.StreamWriter) -> str:
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return hashlib.sha256(certificate).digest().hex(":").upper()


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error)  # asyncio replaces the text of a failed connect
