"""The network of a rail, as sites have it: it forwards frames between two machines, and leases them addresses.

The machines of a lab of two send each other frames by datagrams. This is between them, under the names of both, so that
it also gets what they broadcast: it answers the requests for a lease, and forwards everything else.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

SUBNET = IPv4Network("10.55.0.0/24")
SERVER = SUBNET[1]
FIRST = 100
LONGEST_FRAME = 65536
LEASE_SECONDS = 86400
COOKIE = b"\x63\x82\x53\x63"
END, SUBNET_MASK, LEASE_TIME, MESSAGE, SERVER_NAME = 255, 1, 51, 53, 54
DISCOVER, OFFER, REQUEST, ACKNOWLEDGE = 1, 2, 3, 5
ANSWERS = {DISCOVER: OFFER, REQUEST: ACKNOWLEDGE}
OPTIONS_AT = 240


class LeasingCable:
    """Forwards the frames of two machines until it is closed; `leases` are the addresses by MAC address."""

    def __init__(self, folder: Path, rail: str) -> None:
        self.leases: dict[bytes, IPv4Address] = {}
        # Named by a descriptor: the names of sockets are short, and folders may be deep.
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._frame = bytearray(LONGEST_FRAME)
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.settimeout(1.0)
        names = (f"node1-{rail}", f"node2-{rail}")
        for name in names:
            (folder / name).rename(folder / f"{name}.machine")
        for name, other in (names, names[::-1]):
            entrance = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            entrance.bind(self._path(name))
            ends = (self._path(f"{other}.machine"), self._path(f"{name}.machine"))
            self._selector.register(entrance, selectors.EVENT_READ, ends)
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for key in [*self._selector.get_map().values()]:
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
        self._sender.close()
        os.close(self._folder)

    def _path(self, name: str) -> str:
        return f"/proc/self/fd/{self._folder}/{name}"

    def _forward(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.2):
                assert isinstance(key.fileobj, socket.socket)
                size = key.fileobj.recv_into(self._frame)
                sender, receiver = key.data
                frame = memoryview(self._frame)[:size]
                reply = self._answer(bytes(frame)) if asks_for_lease(frame) else None
                # A machine that reboots takes nothing.
                with suppress(OSError):
                    self._sender.sendto(reply or frame, sender if reply else receiver)

    def _answer(self, frame: bytes) -> bytes | None:
        start = 14 + 4 * (frame[14] & 15) + 8
        request = frame[start:]
        kind = ANSWERS.get(int.from_bytes(options_of(request).get(MESSAGE, b"")))
        if kind is None:
            return None
        mac = request[28:34]
        address = self.leases.setdefault(mac, SUBNET[FIRST + len(self.leases)])
        return lease(request, mac, address, kind)


def asks_for_lease(frame: memoryview) -> bool:
    """Whether a frame is a message to a DHCP server."""
    if len(frame) < 14 + 20 + 8 + OPTIONS_AT or bytes(frame[12:14]) != b"\x08\x00" or frame[23] != socket.IPPROTO_UDP:
        return False
    start = 14 + 4 * (frame[14] & 15)
    return bytes(frame[start + 2 : start + 4]) == struct.pack(">H", 67)


def options_of(message: bytes) -> dict[int, bytes]:
    """Return the options of a DHCP message by number."""
    options, at = {}, OPTIONS_AT
    while at + 1 < len(message) and message[at] != END:
        if message[at] == 0:
            at += 1
            continue
        size = message[at + 1]
        options[message[at]] = message[at + 2 : at + 2 + size]
        at += 2 + size
    return options


def lease(request: bytes, mac: bytes, address: IPv4Address, kind: int) -> bytes:
    """Return the frame that answers a request."""
    options = {
        MESSAGE: bytes([kind]),
        SERVER_NAME: SERVER.packed,
        LEASE_TIME: struct.pack(">I", LEASE_SECONDS),
        SUBNET_MASK: SUBNET.netmask.packed,
    }
    listed = b"".join(bytes([number, len(value)]) + value for number, value in options.items())
    head = bytes([2, *request[1:3], 0]) + request[4:8] + bytes(4) + request[12:16]
    message = head + address.packed + SERVER.packed + bytes(4) + request[28:44] + bytes(192) + COOKIE + listed
    message += bytes([END])
    datagram = struct.pack(">HHHH", 67, 68, 8 + len(message), 0) + message
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0, 64, socket.IPPROTO_UDP, 0)
    ip += SERVER.packed + b"\xff" * 4
    ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    return mac + b"\x02\x00\x00\x00\x00\x01\x08\x00" + ip + datagram


def checksum(header: bytes) -> int:
    """Return the checksum of an IP header in which that field is 0."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


@contextmanager
def leasing(folder: Path, rail: str = "rail0") -> Iterator[LeasingCable]:
    """Put a network that leases addresses between the machines of a lab."""
    cable = LeasingCable(folder, rail)
    try:
        yield cable
    finally:
        cable.close()
