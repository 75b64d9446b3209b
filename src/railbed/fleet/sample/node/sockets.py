"""Round-trip times of TCP connections, from the kernel by sock_diag: one dump for all interfaces."""

from __future__ import annotations

import fcntl
import socket
import struct

from railbed.fleet.sample.node import netlink
from railbed.fleet.sample.node.group import Group

SOCK_DIAG, BY_FAMILY = 4, 20
ESTABLISHED = 1 << 1
INFO, WITH_INFO = 2, 1 << 1
ADDRESS_OF_INTERFACE = 0x8915
LAST_SENT, RTT = 44, 68
"""Where `struct tcp_info` has the milliseconds since data was sent, and the smoothed round trip in microseconds."""
RECENT_MS = 2000
MOST = 1000
"""A node with more connections is a server of something else: reading them would cost too much."""
ADDRESSES, ATTRIBUTES = 8, 72
"""Where an entry has the addresses of both ends, and its attributes."""


class Connections(netlink.Dump):
    """For each address of this node, the longest round-trip time of connections that send, and its peer."""

    def __init__(self) -> None:
        request = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, WITH_INFO, ESTABLISHED)
        super().__init__(SOCK_DIAG, BY_FAMILY, BY_FAMILY, request)
        self._too_many = False
        self.slowest: dict[int, tuple[int, int]] = {}
        """Time and peer by local address; none if the kernel does not answer, or there are too many connections."""

    def refresh(self) -> None:
        """Read all connections."""
        self.slowest = {}
        if self._too_many:
            return
        try:
            entries = self.read()
            self._too_many = len(entries) > MOST
            for local, peer, rtt in map(connection, entries):
                if rtt:
                    self.slowest[local] = max(self.slowest.get(local, (0, 0)), (rtt, peer))
        except (OSError, struct.error):
            self.slowest = {}


class PortConnections(Group):
    """The connections of one interface, as of the last refresh."""

    source = "tcp"
    names = ("rtt_us", "slowest_peer")

    def __init__(self, port: str, address: int, connections: Connections) -> None:
        self.port = port
        self._address = address
        self._connections = connections

    def read(self) -> list[int | None]:
        """Return the longest time and its peer; None if no connection sends."""
        return list(self._connections.slowest.get(self._address, (None, None)))


def connection(message: bytes) -> tuple[int, int, int]:
    """Return local address, peer and round-trip time of a connection; 0 as the time if it has sent nothing recently."""
    local, peer = struct.unpack_from("!I12xI", message, ADDRESSES)
    info = netlink.attributes(message[ATTRIBUTES:]).get(INFO, b"")
    if len(info) < RTT + 4:
        return local, peer, 0
    (last_sent,), (rtt,) = struct.unpack_from("=I", info, LAST_SENT), struct.unpack_from("=I", info, RTT)
    return local, peer, rtt if last_sent <= RECENT_MS else 0


def address_of(port: str) -> int:
    """Return the IPv4 address of an interface as a number; 0 if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, ADDRESS_OF_INTERFACE, struct.pack("256s", port.encode()[:15]))
        except OSError:
            return 0
    (address,) = struct.unpack_from("!I", answer, 20)
    return int(address)
