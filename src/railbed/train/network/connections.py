"""The TCP connections and the addresses of this network namespace, from the kernel through netlink.

The same as `ss -tin` and `ip address`, but without a process: a program that uses MPI must not fork. Ordinary users
may query it. Every connection has a cookie that is unique until the next boot.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from railbed.transport.netlink import (
    CONNECTIONS,
    ROUTE,
    TCP_INFO,
    KernelList,
    Unreadable,
    attributes,
    select_connections,
)

RTM_NEWADDR, RTM_GETADDR = 20, 22
IFA_ADDRESS, IFA_LOCAL = 1, 2
STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
"""The states in which a connection can still send: all but time-wait (6), closed (7) and listening (10)."""
SOCKET = struct.Struct("=BBxxHH16s16sIQIIIII")
"""Family, state, ports, addresses, interface, cookie, expiry, queues, user, inode."""
INTERFACE_ADDRESS = struct.Struct("=BxxxI")
"""Family and number of the interface."""
ADDRESSES = KernelList("addresses", ROUTE, RTM_GETADDR, RTM_NEWADDR, INTERFACE_ADDRESS.size)
AGAIN_AT, SEGMENTS_AT, SENT_AT, SENT_END = 100, 156, 200, 216
"""Offsets in `struct tcp_info`: tcpi_total_retrans, tcpi_data_segs_out, tcpi_bytes_sent, and the end of
tcpi_bytes_retrans behind it."""
BYTES_SENT, SEGMENTS_SENT = struct.Struct("=QQ"), struct.Struct("=I")
MAPPED = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4 address in an IPv6 socket."""


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
    requests = [select_connections(family, STATES) for family in (socket.AF_INET, socket.AF_INET6)]
    entries = [entry for request in requests for entry in CONNECTIONS.read(request)]
    return [parsed for entry in entries if (parsed := connection(entry))]


def addresses() -> dict[str, str]:
    """Return the interface of every address here; raise Unreadable if the kernel does not list them."""
    names = dict(socket.if_nameindex())
    known = map(interface_address, ADDRESSES.read(INTERFACE_ADDRESS.pack(socket.AF_UNSPEC, 0)))
    return {address: names.get(number, "") for address, number in known if address}


def connection(entry: bytes) -> Connection | None:
    """Return the connection of an entry; None for a closed one, which has no counters."""
    family, _, _, _, local, remote, _, cookie, _, _, waiting, _, inode = SOCKET.unpack_from(entry)
    info = attributes(entry[SOCKET.size :]).get(TCP_INFO)
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


def interface_address(entry: bytes) -> tuple[str, int]:
    """Return the address of an entry and the number of its interface; no address if it is not an IP address."""
    family, number = INTERFACE_ADDRESS.unpack_from(entry)
    values = attributes(entry[INTERFACE_ADDRESS.size :])
    # On a point-to-point link the first of the two belongs to the other end.
    packed = values.get(IFA_LOCAL, values.get(IFA_ADDRESS, b""))
    known = len(packed) == {socket.AF_INET: 4, socket.AF_INET6: 16}.get(family)
    return (_address(family, packed) if known else ""), number


def _address(family: int, packed: bytes) -> str:
    """Return an address as text; mapped IPv4 addresses are returned as IPv4."""
    if family == socket.AF_INET:
        return socket.inet_ntop(family, packed[:4])
    if packed.startswith(MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(MAPPED) :])
    return socket.inet_ntop(socket.AF_INET6, packed)
