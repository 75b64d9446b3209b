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

from switchlab.nexus.cli.arguments import expand_interfaces
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers import requests
from switchlab.nexus.servers.connections import Connections
from switchlab.nexus.servers.requests import Arguments

MAX_REQUEST = 1 << 20


class ControlService:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._server: asyncio.Server | None = None
        self._connections = Connections()
        self._actions: dict[str, Callable[[Arguments], object]] = {
            "link": self._link,
            "neighbour": lambda arguments: self._switch.add_neighbour(requests.neighbour(arguments)),
            "mac": lambda arguments: self._switch.add_mac(requests.mac_entry(arguments)),
            "add": self._add,
            "carry": self._carry,
            "counters": self._counters,
            "disconnect": lambda arguments: self._switch.disconnect(requests.text(arguments, "port")),
            "cut": self._cut,
            "refuse": self._refuse,
            "accept": lambda _: self._switch.faults.refused.clear(),
            "hold": lambda arguments: self._switch.faults.hold(requests.text(arguments, "command")),
            "held": lambda _: list(self._switch.faults.waiting),
            "release": lambda _: self._switch.faults.release(),
            "tcam": self._tcam,
            "disturbances": lambda _: [asdict(item) for item in self._switch.disturbances],
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
            requests.text(arguments, "port"),
            up=requests.flag(arguments, "up"),
            mbps=requests.optional_number(arguments, "mbps"),
            dcbx_peer=requests.flag(arguments, "dcbx_peer") if "dcbx_peer" in arguments else None,
        )

    def _add(self, arguments: Arguments) -> None:
        self._switch.add(
            requests.text(arguments, "port"),
            requests.text(arguments, "counter"),
            requests.number(arguments, "amount", 1),
            group=requests.optional_number(arguments, "group"),
            priority=requests.optional_number(arguments, "priority"),
        )

    def _carry(self, arguments: Arguments) -> object:
        ports = requests.text(arguments, "port_in"), requests.text(arguments, "port_out")
        return asdict(self._switch.carry(*ports, requests.packets(arguments)))

    def _tcam(self, arguments: Arguments) -> None:
        """Give a TCAM region another size, as after a reload."""
        region = requests.text(arguments, "region")
        if region not in self._switch.tcam:
            raise ValueError(f"the switch has no TCAM region {region}")
        self._switch.tcam[region] = requests.number(arguments, "size")

    def _counters(self, arguments: Arguments) -> object:
        return asdict(self._switch.ports[requests.text(arguments, "port")])

    def _cut(self, arguments: Arguments) -> None:
        """Cut all SSH connections, now or once `after` more commands have run."""
        after = requests.optional_number(arguments, "after")
        if after is None:
            self._switch.drop_connections()
        else:
            self._switch.faults.commands_until_cut = max(after, 1)

    def _refuse(self, arguments: Arguments) -> None:
        """Refuse commands that start with `command`; without `error`, accept them again."""
        command, error = requests.text(arguments, "command"), requests.text(arguments, "error", "")
        self._switch.faults.refused.pop(command, None)
        if error:
            self._switch.faults.refused[command] = f"{error.rstrip()}\n"


def _port_name(value: object) -> str:
    names = expand_interfaces(str(value))
    if names is None or len(names) != 1:
        return str(value)
    return names[0]
