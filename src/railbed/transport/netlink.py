"""Lists that the Linux kernel returns by netlink, such as its TCP connections, read strictly.

An answer that is an error, damaged, too short or without an end raises `Unreadable`: a list with a gap would look like
a complete one. Standard library and Python 3.7 only: nodes get this module as text, with the program that samples them.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator

HEADER = struct.Struct("=IHHII")
"""Length, kind, flags, sequence number and port of a message."""
ATTRIBUTE = struct.Struct("=HH")
"""Length and kind of an attribute."""
KIND_BITS = 0x3FFF
"""The bits of an attribute's kind that are not flags."""
ERROR, DONE = 2, 3
DUMP = 0x301
"""The flags of a request for all entries."""
ROUTE, SOCK_DIAG = 0, 4
BY_FAMILY = 20
TCP_INFO = 2
"""The attribute of a connection with its `struct tcp_info`."""
TCP_REQUEST = struct.Struct("=BBBxI48x")
"""Family, protocol, extensions and states; the 48 bytes that would select a single socket are zero."""
ANSWER_SECONDS = 2.0
RECEIVE_BYTES = 1 << 18
MOST_ANSWERS = 100_000
"""A list in more answers than this is invalid."""


class Unreadable(Exception):
    """The kernel does not list its entries, or not enough about them; the message is the reason."""


class KernelList:
    """A list that the kernel keeps, and how to request it."""

    def __init__(self, content: str, protocol: int, request: int, entry: int, shortest: int) -> None:
        self.content = content
        """What is listed, in the plural."""
        self._protocol, self._request, self._entry = protocol, request, entry
        self._shortest = shortest
        """Bytes that every entry has."""

    def read(self, selection: bytes) -> list[bytes]:
        """Return the entries that a request selects, without their headers; raise Unreadable unless all are listed."""
        head = HEADER.pack(HEADER.size + len(selection), self._request, DUMP, 1, 0)
        try:
            # A socket of its own, so that the rest of an unreadable answer is not taken for the next one.
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, self._protocol) as kernel:
                kernel.settimeout(ANSWER_SECONDS)
                kernel.sendto(head + selection, (0, 0))
                return list(self.entries(kernel.recv(RECEIVE_BYTES) for _ in range(MOST_ANSWERS)))
        except OSError as error:
            raise Unreadable(f"the kernel does not list its {self.content}: {error.strerror or error}") from None

    def entries(self, answers: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the entries in the answers to a request."""
        for answer in answers:
            for kind, body in self._messages(answer):
                if kind == DONE:
                    return
                if kind == ERROR:
                    raise Unreadable(f"the kernel does not list its {self.content}: {_error(body)}")
                if kind == self._entry:
                    if len(body) < self._shortest:
                        raise Unreadable(f"the kernel's list of {self.content} has an entry that is too short")
                    yield body
        raise Unreadable(f"the kernel's list of {self.content} does not end")

    def _messages(self, answer: bytes) -> Iterator[tuple[int, bytes]]:
        if not answer:
            raise Unreadable(f"the kernel's list of {self.content} is truncated")
        at = 0
        while at < len(answer):
            length, kind = HEADER.unpack_from(answer, at)[:2] if len(answer) - at >= HEADER.size else (0, 0)
            if not HEADER.size <= length <= len(answer) - at:
                raise Unreadable(f"the kernel's list of {self.content} is truncated in a message")
            yield kind, answer[at + HEADER.size : at + length]
            at += _align(length)


CONNECTIONS = KernelList("TCP connections", SOCK_DIAG, BY_FAMILY, BY_FAMILY, 72)


def select_connections(family: int, states: int) -> bytes:
    """Return the request for the TCP connections of a family of addresses in some states, each state a bit."""
    return TCP_REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (TCP_INFO - 1), states)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return netlink attributes by kind; raise Unreadable if the last is truncated."""
    values: dict[int, bytes] = {}
    at = 0
    while len(data) - at >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if not ATTRIBUTE.size <= length <= len(data) - at:
            raise Unreadable("the kernel's answer has a truncated attribute")
        values[kind & KIND_BITS] = data[at + ATTRIBUTE.size : at + length]
        at += _align(length)
    return values


def _error(body: bytes) -> str:
    if len(body) < 4:
        return "an error without a number"
    number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
    return os.strerror(number) if 0 < number < 4096 else f"error {number}"


def _align(length: int) -> int:
    return length + 3 & ~3
