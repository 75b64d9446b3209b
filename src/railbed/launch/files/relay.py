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
when everything is here and verified. It ends when its input ends, or when control is silent. Standard library only: see
server.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from railbed.launch.files.guard import Refusal
from railbed.launch.files.partial import Copy, obtain
from railbed.launch.files.peers import Broken, PieceServer, fetch
from railbed.launch.files.pieces import Pieces
from railbed.launch.files.storage import answer, base_of, explained, free_space, need_room, serve

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
        was_complete = self._copy.is_complete
        while not self._copy.is_complete:
            if self._fetching and self._fetching.done():
                self._fetching.result()  # a full disk
            await self._copy.wait_for(self._copy.have, REPORT_SECONDS)
        if not was_complete:
            await asyncio.to_thread(self._copy.finish, self._base, self._parcel)
        answer(kind="stored", have=self._copy.have)

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
    with explained(base):
        copy = obtain(base, parcel, pieces)
        if not copy.is_complete:
            need_room(base, [{**parcel, "bytes": pieces.total - pieces.start(copy.have)}])
        asyncio.run(Relay(base, request, copy).run(source))


def main() -> None:
    """Serve the request on standard input."""
    serve({"relay": relay})
    sys.stdout.flush()
    os._exit(0)  # the thread that reads standard input would hold up the end
