"""Capture files as bytes: pcap and pcapng in all their forms."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tests.captures import headers
from tests.captures.truth import START, Packet

ETHERNET, RAW, COOKED, COOKED2 = 1, 101, 113, 276
SNAP_LENGTH = 262144


@dataclass(frozen=True)
class Record:
    """One packet of a file: its time in nanoseconds, its bytes, and its length on the wire if that is another."""

    time: int
    data: bytes
    length: int | None = None

    @property
    def original(self) -> int:
        """Return the length on the wire."""
        return len(self.data) if self.length is None else self.length

    def cut(self, snap: int) -> Record:
        """Return it as recorded with a snap length."""
        return Record(self.time, self.data[:snap], self.original)


def records(packets: Iterable[Packet], *, snap: int = SNAP_LENGTH, link: int = ETHERNET) -> list[Record]:
    """Return packets as records."""
    if link == ETHERNET:
        return [Record(packet.time, packet.beginning(snap), packet.length) for packet in packets]
    return [Record(packet.time, _linked(packet, link)).cut(snap) for packet in packets]


def other_records(frames: Iterable[bytes], *, time: int = START) -> list[Record]:
    """Return other frames as records."""
    return [Record(time, frame) for frame in frames]


def _linked(packet: Packet, link: int) -> bytes:
    match link:
        case 113:
            return headers.cooked(packet.ethertype, packet.tags) + packet.packet
        case 276:
            return headers.cooked2(packet.ethertype, packet.tags) + packet.packet
    return packet.packet


def pcap(
    content: Iterable[Record], *, order: str = "<", nano: bool = True, link: int = ETHERNET, snap: int = SNAP_LENGTH
) -> bytes:
    """Return a pcap file."""
    magic, unit = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for record in content:
        seconds, rest = divmod(record.time, 10**9)
        parts.append(struct.pack(f"{order}IIII", seconds, rest // unit, len(record.data), record.original))
        parts.append(record.data)
    return b"".join(parts)


def option(order: str, code: int, value: bytes) -> bytes:
    """Return an option of a pcapng block."""
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return a pcapng block."""
    padded = body + bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(padded) + 12)
    return struct.pack(f"{order}I", kind) + length + padded + length


def section(order: str = "<") -> bytes:
    """Return a section header."""
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


@dataclass(frozen=True)
class Interface:
    """An interface of a pcapng file; `resolution` and `offset` as in if_tsresol and if_tsoffset, None if absent."""

    link: int = ETHERNET
    snap: int = SNAP_LENGTH
    resolution: int | None = 9
    offset: int | None = None

    def block(self, order: str = "<") -> bytes:
        """Return its description."""
        options = b""
        if self.resolution is not None:
            options += option(order, 9, bytes([self.resolution]))
        if self.offset is not None:
            options += option(order, 14, struct.pack(f"{order}q", self.offset))
        if options:
            options += option(order, 0, b"")
        return block(order, 1, struct.pack(f"{order}HHI", self.link, 0, self.snap) + options)

    def ticks(self, time: int) -> int:
        """Return a time in the interface's own units."""
        resolution = 6 if self.resolution is None else self.resolution
        time -= (self.offset or 0) * 10**9
        return (time << (resolution & 127)) // 10**9 if resolution & 128 else time * 10**resolution // 10**9


def enhanced(record: Record, interface: Interface, *, number: int = 0, order: str = "<", options: bytes = b"") -> bytes:
    """Return an enhanced packet block."""
    ticks = interface.ticks(record.time)
    body = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(record.data), record.original)
    return block(order, 6, body + record.data + bytes(-len(record.data) % 4) + options)


def simple(record: Record, order: str = "<") -> bytes:
    """Return a simple packet block."""
    return block(order, 3, struct.pack(f"{order}I", record.original) + record.data)


def statistics(dropped: int, *, number: int = 0, order: str = "<") -> bytes:
    """Return the statistics of an interface: how many packets it lost."""
    options = option(order, 5, struct.pack(f"{order}Q", dropped)) + option(order, 0, b"")
    return block(order, 5, struct.pack(f"{order}III", number, 0, 0) + options)


def pcapng(content: Iterable[Record], *, order: str = "<", interface: Interface | None = None) -> bytes:
    """Return a pcapng file with one section and one interface."""
    described = interface or Interface()
    blocks = [enhanced(record, described, order=order) for record in content]
    return b"".join([section(order), described.block(order), *blocks])
