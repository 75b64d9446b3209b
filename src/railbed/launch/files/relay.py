"""Brings a large parcel to this node, piece by piece, and passes it on to other nodes meanwhile.

Control decides who gets pieces from whom. The request is as for `put`, with one `parcel`, its `pieces`, and the
`addresses` of this node on rails. Then come commands, each a JSON line:

    admit    key, number            serve pieces to one connection with this key; answered by `serving`
    fetch    key, places            fetch pieces from another node; `broken` if that fails
    piece    index, size            a piece from control itself: its bytes follow
    beat                            at least every few seconds
    end                             the copy is complete everywhere

Answers: `waiting` while another copy to the same disk is in progress, `ready` once (path, free, have), `serving`
(number, places), `from` (address), `have` about once a second, `broken` (why, have), `stranger` (address), `stored`
(new: it was not before) when everything is here and verified. It ends when its input ends, or when control is silent.

Pieces pass from node to node over TCP: a node that has them serves them to others that have a key for it.

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
import json
import os
import secrets
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from railbed.launch.files.guard import Refusal
from railbed.launch.files.partial import Copy, Pieces, obtain
from railbed.launch.files.server import answer, base_of, explain_full_disk, free_space, need_room, serve

T = TypeVar("T")
RANDOM_BYTES = 32
REQUEST = struct.Struct(">Q32s")
LENGTH = struct.Struct(">I")
HANDSHAKE_SECONDS = 5.0
WAIT_SECONDS = 1.0
PEER_SILENCE_SECONDS = 10.0
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
            opening = asyncio.open_connection(address, port, limit=PART_BYTES)
            connection = await asyncio.wait_for(opening, HANDSHAKE_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
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


async def _within(work: Coroutine[object, object, T], seconds: float = PEER_SILENCE_SECONDS) -> T:
    """Wait for the other end; raise Broken if it is silent or gone."""
    try:
        return await asyncio.wait_for(work, seconds)
    except (TimeoutError, asyncio.TimeoutError):
        raise Broken(f"it sent nothing for {seconds:g} s") from None
    except (OSError, asyncio.IncompleteReadError):
        raise Broken(ENDED) from None


REPORT_SECONDS = 1.0
SILENCE_SECONDS = 60.0
UNREAD = 2
"""Commands that may wait: a piece is large."""


class Relay:
    """The part of this node in a distribution."""

    def __init__(self, base: Path, request: Mapping[str, Any], copy: Copy) -> None:
        self._base = base
        self._parcel: Mapping[str, Any] = request["parcel"]
        self._addresses: list[str] = request["addresses"]
        self._copy = copy
        self._strangers: set[str] = set()
        self._server = PieceServer(copy, self._report_stranger)
        self._fetching: asyncio.Task[None] | None = None

    async def run(self, source: BinaryIO) -> None:
        """Obey control until the end."""
        commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue(UNREAD)
        reader = _CommandReader(source, commands, asyncio.get_running_loop())
        reader.start()
        answer(kind="ready", path=str(self._base), free=free_space(self._base)[0], have=self._copy.have)
        obeying = asyncio.create_task(self._obey(commands))
        completing = asyncio.create_task(self._complete())
        reporting = asyncio.create_task(self._report(reader))
        waiting = {obeying, completing, reporting}
        while not obeying.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        self._server.close()

    async def _obey(self, commands: asyncio.Queue[dict[str, Any]]) -> None:
        while (command := await commands.get())["do"] != "end":
            match command:
                case {"do": "admit", "key": str(key), "number": int(number)}:
                    places = await self._server.admit(bytes.fromhex(key), self._addresses)
                    answer(kind="serving", number=number, places=places)
                case {"do": "fetch", "key": str(key), "places": list(places)}:
                    wanted = [(str(address), int(port)) for address, port in places]
                    self._fetching = asyncio.create_task(self._fetch(wanted, bytes.fromhex(key)))
                case {"do": "piece", "index": int(index), "data": bytes(data)}:
                    if index != self._copy.have or not await self._copy.append(data):
                        raise Refusal("the files changed while they were copied", "try again")

    async def _fetch(self, places: list[tuple[str, int]], key: bytes) -> None:
        try:
            await fetch(self._copy, places, key, lambda address: answer(kind="from", address=address))
        except Broken as error:
            answer(kind="broken", why=str(error), have=self._copy.have)

    async def _complete(self) -> None:
        """Give the parcel its place when it is complete."""
        while not self._copy.is_complete:
            if self._fetching and self._fetching.done():
                self._fetching.result()  # a full disk
            await self._copy.wait_for(self._copy.have, REPORT_SECONDS)
        is_new = not self._copy.is_stored
        if is_new:
            await asyncio.to_thread(self._copy.finish, self._base, self._parcel)
        answer(kind="stored", have=self._copy.have, new=is_new)

    async def _report(self, reader: _CommandReader) -> None:
        while time.monotonic() - reader.last < SILENCE_SECONDS:
            await asyncio.sleep(REPORT_SECONDS)
            answer(kind="have", have=self._copy.have)
        os._exit(1)

    def _report_stranger(self, address: str) -> None:
        if address not in self._strangers:
            self._strangers.add(address)
            answer(kind="stranger", address=address)


class _CommandReader(threading.Thread):
    """Reads commands: standard input was opened as a file, whose buffer may have the first of them already."""

    def __init__(
        self, source: BinaryIO, commands: asyncio.Queue[dict[str, Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(daemon=True)
        self.last = time.monotonic()
        self._source, self._commands, self._loop = source, commands, loop

    def run(self) -> None:
        """Read until control is gone, which ends this process at once: what was stored is continued next time."""
        while line := self._source.readline():
            command = json.loads(line)
            if command["do"] == "piece":
                command["data"] = self._source.read(command["size"])
                if len(command["data"]) < command["size"]:
                    break
            self.last = time.monotonic()
            if command["do"] != "beat":
                asyncio.run_coroutine_threadsafe(self._commands.put(command), self._loop).result()
        os._exit(1)


def relay(request: Mapping[str, Any], source: BinaryIO) -> None:
    """Serve a request."""
    base = base_of(request, create=True)
    pieces, parcel = Pieces.from_message(request["pieces"]), request["parcel"]
    with explain_full_disk(base):
        copy = obtain(base, parcel, pieces)
        if not copy.is_complete:
            need_room(base, [{**parcel, "bytes": pieces.total - pieces.start(copy.have)}])
        asyncio.run(Relay(base, request, copy).run(source))


def main() -> None:
    """Serve the request on standard input."""
    serve({"relay": relay})
    sys.stdout.flush()
    os._exit(0)  # the thread that reads standard input would hold up the end
