"""Lists that the kernel returns by netlink."""

from __future__ import annotations

import socket
import struct

HEADER = struct.Struct("=IHHII")
"""Length, kind, flags, sequence number and port of a message."""
ERROR, DONE = 2, 3
DUMP = 0x301
"""A request for all entries."""
SECONDS = 1.0
RECEIVE_BYTES = 1 << 18


class Dump:
    """A request for all entries of a kind, which can be repeated."""

    def __init__(self, protocol: int, request: int, entry: int, body: bytes) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.settimeout(SECONDS)
        self._request, self._entry, self._body = request, entry, body
        self._sequence = 0

    def read(self) -> list[bytes]:
        """Return the entries, without their headers; raise OSError if the kernel does not answer."""
        self._sequence += 1
        size = HEADER.size + len(self._body)
        self._socket.send(HEADER.pack(size, self._request, DUMP, self._sequence, 0) + self._body)
        entries: list[bytes] = []
        while True:
            data = self._socket.recv(RECEIVE_BYTES)
            at = 0
            while at + HEADER.size <= len(data):
                length, kind, _, sequence, _ = HEADER.unpack_from(data, at)
                if sequence == self._sequence:  # otherwise a late answer to an earlier request
                    if kind in (DONE, ERROR):
                        return entries
                    if kind == self._entry:
                        entries.append(data[at + HEADER.size : at + length])
                at += max(HEADER.size, aligned(length))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def attributes(data: bytes) -> dict[int, bytes]:
    """Return netlink attributes by type."""
    values = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        values[kind & 0x3FFF] = data[at + 4 : at + length]
        at += aligned(length)
    return values


def aligned(length: int) -> int:
    """Return where the next message or attribute begins."""
    return length + 3 & ~3
