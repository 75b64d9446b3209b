"""A client of a device's control socket: what a test, or a lab, does to the switch or host from outside.

The requests are those of the page of each device, such as nexus/README.md.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

ANSWER_SECONDS = 30.0


class ControlError(Exception):
    """A switch or host refused a request, or did not answer."""


class Control:
    """Cables, faults, traffic and counters of a running switch; `request` reaches everything else, and hosts."""

    def __init__(self, path: Path, *, seconds: float = ANSWER_SECONDS, device: str = "switch") -> None:
        self.path = path
        self._seconds = seconds
        self._device = device

    def cable(self, port: str, *, mac: str, peer: str, peer_port: str, mbps: int | None = None, vlan: int = 1) -> None:
        """Plug a device into a port: its link is up, it announces itself by LLDP, and its address is learned."""
        address = _format_address(mac)
        self.link(port, up=True, mbps=mbps)
        identity = {"chassis_id": address, "port_id": peer_port, "system_name": peer, "port_description": peer_port}
        self.request("neighbour", port=port, **identity)
        self.request("mac", port=port, vlan=vlan, address=address)

    def uncable(self, port: str) -> None:
        """Unplug whatever is in a port, and forget it."""
        self.request("disconnect", port=port)

    def link(self, port: str, *, up: bool, mbps: int | None = None, dcbx_peer: bool | None = None) -> None:
        """Bring the link of a port up or down; without that of the management port nobody can log in."""
        options = {"mbps": mbps, "dcbx_peer": dcbx_peer}
        self.request("link", port=port, up=up, **{name: value for name, value in options.items() if value is not None})

    def refuse(self, command: str, error: str) -> None:
        """Refuse all commands that begin with this text, with this error."""
        self.request("refuse", command=command, error=error)

    def accept_all(self) -> None:
        """Accept all commands again."""
        self.request("accept")

    def cut(self, *, after: int | None = None) -> None:
        """Cut all SSH connections: now, or once this many more commands have run."""
        self.request("cut", **({} if after is None else {"after": after}))

    def hold(self, command: str) -> None:
        """Let commands that begin with this text wait before they run, until `release`."""
        self.request("hold", command=command)

    def list_held(self) -> list[str]:
        """Return the commands that wait now."""
        commands = self.request("held")
        return [str(command) for command in commands] if isinstance(commands, list) else []

    def release(self) -> None:
        """Let all commands that wait run."""
        self.request("release")

    def carry(self, port_in: str, port_out: str, *, dscp: int, size: int, **options: object) -> dict[str, object]:
        """Send a burst of so many bytes through the switch; return what became of it."""
        outcome = self.request("carry", port_in=port_in, port_out=port_out, dscp=dscp, bytes=size, **options)
        return dict(outcome) if isinstance(outcome, dict) else {}

    def count(self, port: str, counter: str, amount: int = 1, **where: int) -> None:
        """Increase a counter of a port: `group` selects a queue, `priority` a counter of PFC."""
        self.request("add", port=port, counter=counter, amount=amount, **where)

    def counters(self, port: str) -> dict[str, object]:
        """Return all counters of a port."""
        counters = self.request("counters", port=port)
        return dict(counters) if isinstance(counters, dict) else {}

    def disturbances(self) -> list[dict[str, object]]:
        """Return what changes of the configuration did to traffic: cause, ports, and whether their links flapped."""
        events = self.request("disturbances")
        return [dict(event) for event in events if isinstance(event, dict)] if isinstance(events, list) else []

    def request(self, action: str, **arguments: object) -> object:
        """Send one request and return its result; raise ControlError if the device refuses it, or does not answer."""
        try:
            line = self._exchange(json.dumps({"do": action, **arguments}).encode() + b"\n")
            answer = json.loads(line) if line else {"ok": False, "error": "it ended"}
        except (OSError, ValueError) as error:
            raise ControlError(f"the {self._device} does not answer on {self.path}: {error}") from error
        if not answer["ok"]:
            raise ControlError(f"the {self._device} refused {action}: {answer['error']}")
        return answer["result"]

    def _exchange(self, line: bytes) -> bytes:
        """Send a line and return the answer; the path of a socket may have 107 bytes, its folder any number."""
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(self._seconds)
                client.connect(f"/proc/self/fd/{folder}/{self.path.name}")
                client.sendall(line)
                with client.makefile("rb") as answers:
                    return answers.readline()
        finally:
            os.close(folder)


def _format_address(mac: str) -> str:
    """Return a MAC address as switches write it: `0c42.a1aa.0001`."""
    digits = "".join(digit for digit in mac.lower() if digit not in ":-.")
    return ".".join(digits[index : index + 4] for index in (0, 4, 8))
