"""A Unix socket through which tests and labs drive the switch: links, neighbours, counters and traffic.

One JSON object per line in each direction: `{"do": "carry", …}` is answered by `{"ok": true, "result": …}`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from railbed.lab.nexus.cli.arguments import expand_interfaces
from railbed.lab.nexus.model.counters import MacEntry, Neighbour
from railbed.lab.nexus.model.switch import Switch
from railbed.lab.nexus.model.traffic import Packets
from railbed.lab.nexus.servers.connections import Connections

MAX_REQUEST = 1 << 20
Arguments = dict[str, object]


class ControlService:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._server: asyncio.Server | None = None
        self._connections = Connections()
        self._actions: dict[str, Callable[[Arguments], object]] = {
            "link": self._link,
            "neighbour": self._neighbour,
            "mac": self._mac,
            "add": self._add,
            "carry": self._carry,
            "counters": self._counters,
            "disconnect": lambda arguments: self._switch.disconnect(str(arguments["port"])),
            "cut": self._cut,
            "refuse": self._refuse,
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
        if not isinstance(request, dict) or request.get("do") not in self._actions:
            return {"ok": False, "error": f"the field do must be one of {', '.join(self._actions)}"}
        arguments = {str(name): value for name, value in request.items() if name != "do"}
        try:
            for name in ("port", "port_in", "port_out"):
                if name in arguments:
                    arguments[name] = _port_name(arguments[name])
            return {"ok": True, "result": self._actions[request["do"]](arguments)}
        except (TypeError, ValueError, KeyError) as error:
            return {"ok": False, "error": str(error)}

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

    def _link(self, arguments: Arguments) -> None:
        self._switch.set_link(
            str(arguments["port"]),
            up=bool(arguments["up"]),
            mbps=_number(arguments.get("mbps")),
            dcbx_peer=bool(arguments["dcbx_peer"]) if "dcbx_peer" in arguments else None,
        )

    def _neighbour(self, arguments: Arguments) -> None:
        self._switch.add_neighbour(Neighbour(**arguments))  # type: ignore[arg-type]

    def _mac(self, arguments: Arguments) -> None:
        self._switch.add_mac(MacEntry(**arguments))  # type: ignore[arg-type]

    def _add(self, arguments: Arguments) -> None:
        amount = _number(arguments.get("amount"))
        self._switch.add(
            str(arguments["port"]),
            str(arguments["counter"]),
            1 if amount is None else amount,
            group=_number(arguments.get("group")),
            priority=_number(arguments.get("priority")),
        )

    def _carry(self, arguments: Arguments) -> object:
        port_in, port_out = str(arguments.pop("port_in")), str(arguments.pop("port_out"))
        return asdict(self._switch.carry(port_in, port_out, Packets(**arguments)))  # type: ignore[arg-type]

    def _counters(self, arguments: Arguments) -> object:
        return asdict(self._switch.ports[str(arguments["port"])])

    def _cut(self, arguments: Arguments) -> None:
        """Cut all SSH connections, now or once `after` more commands have run."""
        after = _number(arguments.get("after"))
        if after is None:
            self._switch.drop_connections()
        else:
            self._switch.faults.commands_until_cut = max(after, 1)

    def _refuse(self, arguments: Arguments) -> None:
        """Refuse commands that start with `command`; without `error`, accept them again."""
        command, error = str(arguments["command"]), arguments.get("error")
        self._switch.faults.refused.pop(command, None)
        if error:
            self._switch.faults.refused[command] = f"{str(error).rstrip()}\n"


def _number(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _port_name(value: object) -> str:
    names = expand_interfaces(str(value))
    if names is None or len(names) != 1:
        return str(value)
    return names[0]
