"""Round-trip times of TCP connections, from the kernel by sock_diag: one dump for all interfaces."""

from __future__ import annotations

import fcntl
import socket
import struct

BY_FAMILY, DONE, ERROR = 20, 3, 2
DUMP = 0x301
"""A request for all entries."""
SOCK_DIAG = 4
ESTABLISHED = 1 << 1
INFO, WITH_INFO = 2, 1 << 1
ADDRESS_OF_INTERFACE = 0x8915
LAST_SENT, RTT = 44, 68
"""Where `struct tcp_info` has the milliseconds since data was sent, and the smoothed round trip in microseconds."""
RECENT_MS = 2000
MOST = 1000
"""A node with more connections is a server of something else: reading them would cost too much."""
SECONDS = 1.0
RECEIVE_BYTES = 1 << 18
HEADER = 72


class Connections:
    """For each address of this node, the longest round-trip time of connections that send, and its peer."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, SOCK_DIAG)
        self._socket.settimeout(SECONDS)
        self._sequence = 0
        self._count = 0

    def read(self) -> dict[int, tuple[int, int]]:
        """Return time and peer by local address; nothing if the kernel does not answer, or there are too many."""
        if self._count > MOST:
            return {}
        self._sequence += 1
        self._count = 0
        slowest: dict[int, tuple[int, int]] = {}
        request = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, WITH_INFO, ESTABLISHED)
        try:
            self._socket.send(struct.pack("=IHHII", 16 + len(request), BY_FAMILY, DUMP, self._sequence, 0) + request)
            for message in self._messages():
                self._count += 1
                local, peer, rtt = connection(message)
                if rtt:
                    slowest[local] = max(slowest.get(local, (0, 0)), (rtt, peer))
        except (OSError, struct.error):
            return {}
        return slowest

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _messages(self) -> list[bytes]:
        messages: list[bytes] = []
        while True:
            data = self._socket.recv(RECEIVE_BYTES)
            at = 0
            while at + 16 <= len(data):
                length, kind, _, sequence, _ = struct.unpack_from("=IHHII", data, at)
                if kind in (DONE, ERROR) and sequence == self._sequence:
                    return messages
                if kind == BY_FAMILY and sequence == self._sequence:
                    messages.append(data[at + 16 : at + length])
                at += max(16, length + 3 & ~3)


class PortConnections:
    """The connections of one interface, from the dump of the current tick."""

    source = "tcp"
    names = ("rtt_us", "slowest_peer")

    def __init__(self, port: str, address: int, dump: dict[int, tuple[int, int]]) -> None:
        self.port = port
        self._address = address
        self._dump = dump

    def read(self) -> list[int | None]:
        """Return the longest time and its peer; None if no connection sends."""
        return list(self._dump.get(self._address, (None, None)))

    def close(self) -> None:
        """Nothing to close."""


def connection(message: bytes) -> tuple[int, int, int]:
    """Return local address, peer and round-trip time of a connection; 0 as the time if it has sent nothing recently."""
    local, peer = struct.unpack_from("!I12xI", message, 8)
    at = HEADER
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == INFO and length >= 4 + RTT + 4:
            (last_sent,) = struct.unpack_from("=I", message, at + 4 + LAST_SENT)
            (rtt,) = struct.unpack_from("=I", message, at + 4 + RTT)
            return local, peer, rtt if last_sent <= RECENT_MS else 0
        at += max(4, length + 3 & ~3)
    return local, peer, 0


def address_of(port: str) -> int:
    """Return the IPv4 address of an interface as a number; 0 if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, ADDRESS_OF_INTERFACE, struct.pack("256s", port.encode()[:15]))
        except OSError:
            return 0
    (address,) = struct.unpack_from("!I", answer, 20)
    return int(address)
