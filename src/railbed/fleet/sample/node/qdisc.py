"""Queueing disciplines of network interfaces, from the kernel by rtnetlink: one dump for all interfaces."""

from __future__ import annotations

import socket
import struct

GET, NEW, DONE, ERROR = 38, 36, 3, 2
DUMP = 0x301
"""A request for all entries."""
ROOT = 0xFFFFFFFF
KIND, STATISTICS, QUEUE = 1, 7, 3
NO_QUEUE = b"noqueue\0"
SECONDS = 1.0
RECEIVE_BYTES = 1 << 18


class Disciplines:
    """The root discipline of interfaces: bytes that wait, packets dropped, times a packet had to wait for its rate."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.settimeout(SECONDS)
        self._sequence = 0

    def read(self) -> dict[int, tuple[int, int, int]]:
        """Return the counters by index of the interface; none if the kernel does not answer."""
        self._sequence += 1
        try:
            self._socket.send(struct.pack("=IHHIIBxxxiIII", 36, GET, DUMP, self._sequence, 0, 0, 0, 0, 0, 0))
            return dict(self._entries())
        except (OSError, struct.error):
            return {}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _entries(self) -> list[tuple[int, tuple[int, int, int]]]:
        entries: list[tuple[int, tuple[int, int, int]]] = []
        while True:
            data = self._socket.recv(RECEIVE_BYTES)
            at = 0
            while at + 16 <= len(data):
                length, kind, _, sequence, _ = struct.unpack_from("=IHHII", data, at)
                if kind in (DONE, ERROR) and sequence == self._sequence:
                    return entries
                if kind == NEW and sequence == self._sequence:
                    entries += entry(data[at + 16 : at + length])
                at += max(16, length + 3 & ~3)


class PortDiscipline:
    """The discipline of one interface, from the dump of the current tick."""

    source = "qdisc"
    names = ("backlog_bytes", "drops", "overlimits")

    def __init__(self, port: str, index: int, dump: dict[int, tuple[int, int, int]]) -> None:
        self.port = port
        self._index = index
        self._dump = dump

    def read(self) -> list[int | None]:
        """Return its counters."""
        return list(self._dump.get(self._index, (None, None, None)))

    def close(self) -> None:
        """Nothing to close."""


def entry(message: bytes) -> list[tuple[int, tuple[int, int, int]]]:
    """Return index and counters of a root discipline; nothing for others and for interfaces without a queue."""
    _, index, _, parent, _ = struct.unpack_from("=BxxxiIII", message)
    attributes = attributes_of(message[20:]) if parent == ROOT else {}
    queue = attributes_of(attributes.get(STATISTICS, b"")).get(QUEUE, b"")
    if attributes.get(KIND) == NO_QUEUE or len(queue) < 20:
        return []
    _, backlog, drops, _, overlimits = struct.unpack_from("=IIIII", queue)
    return [(index, (backlog, drops, overlimits))]


def attributes_of(data: bytes) -> dict[int, bytes]:
    """Return netlink attributes by type."""
    attributes = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        attributes[kind & 0x3FFF] = data[at + 4 : at + length]
        at += length + 3 & ~3
    return attributes
