"""Passes pieces from node to node, over TCP: a node that has them serves them to others that have a key for it.

    server   32 random bytes
    client   number of the first piece wanted (8 bytes), HMAC-SHA256 of both with the key (32 bytes)
    server   for each piece: its length (4 bytes), its bytes; length 0 about once a second while it has no more yet

A key admits one connection. Whoever has none gets random bytes; nobody can send anything but those 40 bytes. Pieces
are not encrypted. The client verifies each by the hash that control gave it, so that it need not trust the server.
Standard library only: see server.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from railbed.launch.files.partial import Copy

T = TypeVar("T")
RANDOM_BYTES = 32
REQUEST = struct.Struct(">Q32s")
LENGTH = struct.Struct(">I")
HANDSHAKE_SECONDS = 5.0
WAIT_SECONDS = 1.0
SILENCE_SECONDS = 10.0
"""How long the other end may be silent: a server that waits for pieces itself reports that every second."""
MOST_STRANGERS = 64
"""Connections that have not proved their key yet. One more closes the oldest of the address that has the most, so that
whoever opens many shuts out nobody but himself: a node that has a key proves it at once."""
PART_BYTES = 1 << 18
ENDED = "the connection ended"


class Broken(Exception):
    """Pieces cannot be had from a node, or no more of them; the message is the reason."""


def _proof(key: bytes, random: bytes, first: int) -> bytes:
    return hmac.digest(key, b"pieces" + random + first.to_bytes(8, "big"), "sha256")


class PieceServer:
    """Serves the pieces of a copy, as it grows."""

    def __init__(self, copy: Copy, report_stranger: Callable[[str], None]) -> None:
        self._copy = copy
        self._report_stranger = report_stranger
        self._keys: set[bytes] = set()
        self._strangers: dict[asyncio.StreamWriter, str] = {}
        """Addresses by connection, the oldest first."""
        self._servers: list[asyncio.Server] = []

    async def admit(self, key: bytes, addresses: Sequence[str]) -> list[tuple[str, int]]:
        """Admit one connection with a key; return where the node listens, which it does from the first time on."""
        self._keys.add(key)
        if not self._servers:
            for address in addresses:
                with contextlib.suppress(OSError):  # a rail that is down
                    self._servers.append(await asyncio.start_server(self._serve, address, 0))
        names = [server.sockets[0].getsockname() for server in self._servers]
        return [(name[0], name[1]) for name in names]

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await self._first_piece(reader, writer)
            if first is not None:
                for index in range(first, self._copy.pieces.count):
                    await self._send(index, writer)
        except (Broken, OSError):
            pass  # it is up to the other end to try again
        finally:
            writer.close()

    async def _first_piece(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
        """Return which piece comes first, or None if the other end has no key."""
        if len(self._strangers) >= MOST_STRANGERS:
            self._close_a_stranger()
        address = str((writer.get_extra_info("peername") or ("",))[0])  # none if it is gone already
        self._strangers[writer] = address
        try:
            random = secrets.token_bytes(RANDOM_BYTES)
            writer.write(random)
            first, proof = REQUEST.unpack(await _within(reader.readexactly(REQUEST.size), HANDSHAKE_SECONDS))
        finally:
            self._strangers.pop(writer, None)
        for key in self._keys:
            if hmac.compare_digest(proof, _proof(key, random, first)):
                self._keys.remove(key)
                return int(first)
        self._report_stranger(address)
        return None

    def _close_a_stranger(self) -> None:
        """Make room for another connection."""
        (address, count), *_ = Counter(self._strangers.values()).most_common(1)
        oldest = next(writer for writer, other in self._strangers.items() if other == address)
        del self._strangers[oldest]
        oldest.transport.abort()
        if count > MOST_STRANGERS // 2:
            self._report_stranger(address)

    async def _send(self, index: int, writer: asyncio.StreamWriter) -> None:
        while not await self._copy.wait_for(index, WAIT_SECONDS):
            writer.write(LENGTH.pack(0))
            await _within(writer.drain())
        writer.write(LENGTH.pack(self._copy.pieces.length(index)))
        loop = asyncio.get_running_loop()
        for span in self._copy.pieces.spans(index):
            at, end = span.offset, span.offset + span.length
            with self._copy.open(span.name) as file:
                while at < end:  # in parts, each of which has to get through in time
                    sent = await _within(loop.sendfile(writer.transport, file, at, min(PART_BYTES, end - at)))
                    if not sent:
                        raise Broken("the file became shorter")
                    at += sent


async def fetch(copy: Copy, places: Sequence[tuple[str, int]], key: bytes, report: Callable[[str], None]) -> None:
    """Fetch the rest of the pieces from the first of these places that answers; raise Broken if that fails.

    `report` is called with its address.
    """
    reader, writer = await _connect(places, report)
    try:
        random = await _within(reader.readexactly(RANDOM_BYTES))
        writer.write(REQUEST.pack(copy.have, _proof(key, random, copy.have)))
        while not copy.is_complete:
            (length,) = LENGTH.unpack(await _within(reader.readexactly(LENGTH.size)))
            if not length:
                continue
            if length != copy.pieces.length(copy.have):
                raise Broken("it sent something else")
            if not await copy.append(await _piece(reader, length)):
                raise Broken(f"piece {copy.have} of its copy is damaged")
    finally:
        writer.close()


async def _connect(
    places: Sequence[tuple[str, int]], report: Callable[[str], None]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    why = "it has no address here"
    for address, port in places:
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                connection = await asyncio.open_connection(address, port, limit=PART_BYTES)
        except TimeoutError:
            why = f"{address} does not answer"
        except OSError as error:
            why = f"{address}: {error.strerror or error}"
        else:
            report(address)
            return connection
    raise Broken(why)


async def _piece(reader: asyncio.StreamReader, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = await _within(reader.read(min(PART_BYTES, length - len(data))))
        if not part:
            raise Broken(ENDED)
        data += part
    return bytes(data)


async def _within(work: Coroutine[object, object, T], seconds: float = SILENCE_SECONDS) -> T:
    """Wait for the other end; raise Broken if it is silent or gone."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise Broken(f"it sent nothing for {seconds:g} s") from None
    except (OSError, asyncio.IncompleteReadError):
        raise Broken(ENDED) from None
