"""The TCP connections and the addresses of this network namespace, from the kernel through netlink.

The same as `ss -tin` and `ip address`, but without a process: a program that uses MPI must not fork. Ordinary users
may query it. Every connection has a cookie that is unique until the next boot.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
SOCK_DIAG_BY_FAMILY = 20
RTM_NEWADDR, RTM_GETADDR = 20, 22
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
INET_DIAG_INFO = 2
IFA_ADDRESS, IFA_LOCAL = 1, 2
STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
"""The states in which a connection can still send: all but time-wait (6), closed (7) and listening (10)."""
HEADER = struct.Struct("=IHHII")
"""Header of every netlink message: length, type, flags, sequence, port."""
REQUEST = struct.Struct("=BBBxI48x")
"""Family, protocol, extensions, states; the 48 bytes that would select a single socket are zero."""
SOCKET = struct.Struct("=BBxxHH16s16sIQIIIII")
"""Family, state, ports, addresses, interface, cookie, expiry, queues, user, inode."""
INTERFACE_ADDRESS = struct.Struct("=BxxxI")
"""Family and number of the interface."""
ATTRIBUTE = struct.Struct("=HH")
AGAIN_AT, SEGMENTS_AT, SENT_AT, SENT_END = 100, 156, 200, 216
"""Offsets in `struct tcp_info`: tcpi_total_retrans, tcpi_data_segs_out, tcpi_bytes_sent, and the end of
tcpi_bytes_retrans behind it."""
BYTES_SENT, SEGMENTS_SENT = struct.Struct("=QQ"), struct.Struct("=I")
MAPPED = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4 address in an IPv6 socket."""
RECEIVE_BYTES = 1 << 18
ANSWER_SECONDS = 2.0
MOST_ANSWERS = 100_000
"""A dump with more answers than this is invalid."""


class Unreadable(Exception):
    """The kernel does not list its connections, or not enough about them; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One TCP connection at one moment."""

    cookie: int
    inode: int
    """Inode of the socket, as in /proc/PID/fd; 0 if no process has it open."""
    local: str
    remote: str
    sent: int
    """Bytes of data sent, without retransmissions."""
    segments: int
    """Data segments sent, including retransmissions, modulo 2**32."""
    again: int
    """Segments retransmitted, with or without data, modulo 2**32."""
    waiting: int = 0
    """Bytes in its send queue: not sent yet, or not acknowledged."""


def connections() -> list[Connection]:
    """Return all TCP connections of this network namespace; raise Unreadable if the kernel does not list them."""
    requests = [
        REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), STATES)
        for family in (socket.AF_INET, socket.AF_INET6)
    ]
    bodies = _dump(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, requests)
    return [parsed for kind, body in bodies if kind == SOCK_DIAG_BY_FAMILY and (parsed := connection(body))]


def addresses() -> dict[str, str]:
    """Return the interface of every address here; raise Unreadable if the kernel does not list them."""
    names = dict(socket.if_nameindex())
    attributes = [
        interface_address(body)
        for kind, body in _dump(NETLINK_ROUTE, RTM_GETADDR, [INTERFACE_ADDRESS.pack(socket.AF_UNSPEC, 0)])
        if kind == RTM_NEWADDR
    ]
    return {address: names.get(number, "") for address, number in attributes if address}


def _dump(protocol: int, kind: int, requests: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the messages that answer requests, one request after the other."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as netlink:
            netlink.settimeout(ANSWER_SECONDS)
            for request in requests:
                head = HEADER.pack(HEADER.size + len(request), kind, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
                netlink.sendto(head + request, (0, 0))
                yield from dumped(netlink.recv(RECEIVE_BYTES) for _ in range(MOST_ANSWERS))
    except OSError as error:
        raise Unreadable(f"the kernel does not list its TCP connections: {error.strerror or error}") from None


def dumped(answers: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of every message up to the end of a dump."""
    for answer in answers:
        for kind, body in _messages(answer):
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                raise Unreadable(f"the kernel does not list its TCP connections: {_error(body)}")
            yield kind, body
    raise Unreadable("the kernel's list of TCP connections does not end")


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    if not answer:
        raise Unreadable("the kernel's list of TCP connections is truncated")
    offset = 0
    while offset < len(answer):
        length, kind, *_ = HEADER.unpack_from(answer, offset) if len(answer) - offset >= HEADER.size else (0, 0)
        if not HEADER.size <= length <= len(answer) - offset:
            raise Unreadable("the kernel's list of TCP connections is truncated in a message")
        yield kind, answer[offset + HEADER.size : offset + length]
        offset += _aligned(length)


def _error(body: bytes) -> str:
    if len(body) < 4:
        return "an error without a number"
    number = -int.from_bytes(body[:4], sys.byteorder, signed=True)
    return os.strerror(number) if 0 < number < 4096 else f"error {number}"


def connection(body: bytes) -> Connection | None:
    """Return the connection of a message; None for a closed one, which has no counters."""
    if len(body) < SOCKET.size:
        raise Unreadable("the kernel's list of TCP connections has a message that is too short")
    family, _, _, _, local, remote, _, cookie, _, _, waiting, _, inode = SOCKET.unpack_from(body)
    info = _attributes(body[SOCKET.size :]).get(INET_DIAG_INFO)
    if info is None:
        return None
    if len(info) < SENT_END:
        raise Unreadable("this kernel does not count the bytes of a TCP connection (Linux 4.19 and later do)")
    sent, repeated = BYTES_SENT.unpack_from(info, SENT_AT)
    return Connection(
        cookie=cookie,
        inode=inode,
        local=_address(family, local),
        remote=_address(family, remote),
        sent=max(0, sent - repeated),
        segments=SEGMENTS_SENT.unpack_from(info, SEGMENTS_AT)[0],
        again=SEGMENTS_SENT.unpack_from(info, AGAIN_AT)[0],
        waiting=waiting,
    )


def interface_address(body: bytes) -> tuple[str, int]:
    """Return the address of a message and the number of its interface; no address if it is not an IP address."""
    if len(body) < INTERFACE_ADDRESS.size:
        raise Unreadable("the kernel's list of addresses has a message that is too short")
    family, number = INTERFACE_ADDRESS.unpack_from(body)
    attributes = _attributes(body[INTERFACE_ADDRESS.size :])
    # On a point-to-point link the first of the two belongs to the other end.
    packed = attributes.get(IFA_LOCAL, attributes.get(IFA_ADDRESS, b""))
    known = len(packed) == {socket.AF_INET: 4, socket.AF_INET6: 16}.get(family)
    return (_address(family, packed) if known else ""), number


def _attributes(rest: bytes) -> dict[int, bytes]:
    attributes: dict[int, bytes] = {}
    offset = 0
    while len(rest) - offset >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(rest, offset)
        if not ATTRIBUTE.size <= length <= len(rest) - offset:
            raise Unreadable("the kernel's answer has a truncated attribute")
        attributes[kind] = rest[offset + ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
    return attributes


def _address(family: int, packed: bytes) -> str:
    """Return an address as text; mapped IPv4 addresses are returned as IPv4."""
    if family == socket.AF_INET:
        return socket.inet_ntop(family, packed[:4])
    if packed.startswith(MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(MAPPED) :])
    return socket.inet_ntop(socket.AF_INET6, packed)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
