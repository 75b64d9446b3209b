"""A Unix socket through which tests and labs drive a device.

One JSON object per line in each direction: `{"do": "ping"}` is answered by `{"ok": true, "result": "pong"}`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from switchlab.common import fields
from switchlab.common.connections import Connections
from switchlab.common.faults import Faults
from switchlab.common.fields import Arguments

MAX_REQUEST = 1 << 20
Actions = Mapping[str, Callable[[Arguments], object]]


class ControlSocket:
    """The requests that a device answers, by name: those of its kind, and those about injected faults."""

    def __init__(self, actions: Actions, faults: Faults, drop_connections: Callable[[], None]) -> None:
        self._faults = faults
        self._drop_connections = drop_connections
        self._server: asyncio.Server | None = None
        self._connections = Connections()
        self._actions: dict[str, Callable[[Arguments], object]] = {
            **actions,
            "cut": self._cut,
            "refuse": self._refuse,
            "accept": lambda _: faults.refused.clear(),
            "hold": lambda arguments: faults.hold(fields.text(arguments, "command")),
            "held": lambda _: list(faults.waiting),
            "release": lambda _: faults.release(),
            "ping": lambda _: "pong",
        }

    async def start(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - one short call before anything is served
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_REQUEST)
        finally:
            os.umask(mask)

    async def close(self) -> None:
        if self._server is not None:
            await self._connections.end(self._server)

    def perform(self, request: object) -> dict[str, object]:
        """Carry out one request."""
        action = request.get("do") if isinstance(request, dict) else None
        if not isinstance(request, dict) or not isinstance(action, str) or action not in self._actions:
            return {"ok": False, "error": f"the field do must be one of {', '.join(self._actions)}"}
        arguments = {str(name): value for name, value in request.items() if name != "do"}
        try:
            return {"ok": True, "result": self._actions[action](self.prepare(arguments))}
        except (TypeError, ValueError, KeyError) as error:
            return {"ok": False, "error": str(error)}

    def prepare(self, arguments: dict[str, object]) -> Arguments:
        """Return the fields of a request as its action takes them."""
        return arguments

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._connections.serve(writer), suppress(ValueError):  # a line over the limit ends the connection
            while line := await reader.readline():
                writer.write(json.dumps(self._answer(line)).encode() + b"\n")
                await writer.drain()

    def _answer(self, line: bytes) -> dict[str, object]:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return {"ok": False, "error": "not a JSON object"}
        return self.perform(request)

    def _cut(self, arguments: Arguments) -> None:
        """Cut all SSH connections, now or once `after` more commands have run."""
        after = fields.optional_number(arguments, "after")
        if after is None:
            self._drop_connections()
        else:
            self._faults.commands_until_cut = max(after, 1)

    def _refuse(self, arguments: Arguments) -> None:
        """Refuse commands that start with `command`; without `error`, accept them again."""
        command, error = fields.text(arguments, "command"), fields.text(arguments, "error", "")
        self._faults.refused.pop(command, None)
        if error:
            self._faults.refused[command] = f"{error.rstrip()}\n"
