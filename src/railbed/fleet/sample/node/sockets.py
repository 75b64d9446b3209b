"""TCP connections of this node, from the kernel by sock_diag, and their round-trip times by interface."""

from __future__ import annotations

import fcntl
import socket
import struct

from railbed.fleet.sample.node.group import CounterGroup
from railbed.transport.netlink import CONNECTIONS, TCP_INFO, Unreadable, attributes, select_connections

SENDING = 1 << 1 | 1 << 4 | 1 << 8
"""Established, and half closed by either end: the states in which much data is sent."""
ADDRESS_OF_INTERFACE = 0x8915
LAST_SENT, RTT, AGAIN, ACKNOWLEDGED, RECEIVED, SEGMENTS, NEEDLESS = 44, 68, 100, 120, 128, 156, 216
"""Where `struct tcp_info` has the milliseconds since data was sent, the smoothed round trip in microseconds, the
segments sent again, the bytes that the peer acknowledged and that were received (Linux 4.1), the segments sent with
data (4.6), and those that the peer reports to have had already (DSACK, 4.19)."""
RECENT_MS = 2000
MOST = 1000
"""A node with more connections is a server of something else: reading them would cost too much."""
PORTS, SOURCE, DESTINATION, COOKIE, USER, ATTRIBUTES = 4, 8, 24, 44, 64, 72
"""Where an entry has the ports and addresses of both ends, its identity, user and inode, and its attributes."""
MAPPED = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4 address in an IPv6 socket, as a server has that accepts both."""


class TcpConnection:
    """One TCP connection over IPv4, as of one reading."""

    __slots__ = (
        *("again", "cookie", "inode", "local", "needless", "peer", "ports", "received", "rtt", "segments", "sent"),
        "user",
    )

    def __init__(self, message: bytes, family: int = socket.AF_INET) -> None:
        self.ports = struct.unpack_from("!HH", message, PORTS)
        (self.cookie,) = struct.unpack_from("=Q", message, COOKIE)
        self.user, self.inode = struct.unpack_from("=II", message, USER)
        """The inode is that of its socket as in /proc/PID/fd; 0 if no process has it open."""
        self.local, self.peer = _address(message, SOURCE, family), _address(message, DESTINATION, family)
        """As numbers; 0 if the connection uses IPv6."""
        info = attributes(message[ATTRIBUTES:]).get(TCP_INFO, b"")
        last_sent, self.rtt = _number("=I", info, LAST_SENT), _number("=I", info, RTT) or 0
        if last_sent is None or last_sent > RECENT_MS:
            self.rtt = 0  # it has sent nothing recently
        self.received = _number("=Q", info, RECEIVED)
        self.sent = _number("=Q", info, ACKNOWLEDGED)
        """Bytes of data, each counted once; None if this kernel does not count them."""
        self.segments, self.again = _number("=I", info, SEGMENTS) or 0, _number("=I", info, AGAIN) or 0
        self.needless = _number("=I", info, NEEDLESS) or 0
        """Segments with data, those of them sent again, and those sent again although they had arrived, modulo 2**32; 0
        if this kernel does not count them."""


class TcpSockets:
    """All connections of this node, and for each of its addresses the longest round trip of those that send."""

    def __init__(self) -> None:
        self._too_many = False
        self.all: list[TcpConnection] = []
        self.are_known = False
        """Whether the kernel listed all connections, and there are not too many."""
        self.slowest: dict[int, tuple[int, int]] = {}
        """Time and peer by local address."""

    def refresh(self) -> None:
        """Read all connections."""
        self.slowest, self.all, self.are_known = {}, [], False
        if self._too_many:
            return
        try:
            for family in FAMILIES:
                entries = CONNECTIONS.read(select_connections(family, SENDING))
                self._too_many = self._too_many or len(entries) > MOST
                self.all += [link for link in (TcpConnection(entry, family) for entry in entries) if link.local]
        except Unreadable:
            self.all = []
            return
        self.are_known = not self._too_many
        for link in self.all:
            if link.rtt:
                self.slowest[link.local] = max(self.slowest.get(link.local, (0, 0)), (link.rtt, link.peer))


class PortConnections(CounterGroup):
    """The connections of one interface, as of the last refresh."""

    source = "tcp"
    names = ("rtt_us", "slowest_peer")

    def __init__(self, port: str, address: int, connections: TcpSockets) -> None:
        self.port = port
        self._address = address
        self._connections = connections

    def read(self) -> list[int | None]:
        """Return the longest time and its peer; None if no connection sends."""
        return list(self._connections.slowest.get(self._address, (None, None)))


FAMILIES = (socket.AF_INET, socket.AF_INET6)


def _address(message: bytes, at: int, family: int) -> int:
    if family == socket.AF_INET6:
        if message[at : at + len(MAPPED)] != MAPPED:
            return 0
        at += len(MAPPED)
    (address,) = struct.unpack_from("!I", message, at)
    return int(address)


def _number(form: str, info: bytes, at: int) -> int | None:
    """Return a number of `struct tcp_info`, which is shorter on older kernels."""
    if len(info) < at + struct.calcsize(form):
        return None
    (number,) = struct.unpack_from(form, info, at)
    return int(number)


def address_of(port: str) -> int:
    """Return the IPv4 address of an interface as a number; 0 if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, ADDRESS_OF_INTERFACE, struct.pack("256s", port.encode()[:15]))
        except OSError:
            return 0
    (address,) = struct.unpack_from("!I", answer, 20)
    return int(address)
