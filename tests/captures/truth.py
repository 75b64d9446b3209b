"""Packets whose every field is known: as bytes for a file, and as the columns that reading the file must give."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import ip_address
from typing import Any

import numpy as np

from railbed.capture.packets import (
    COLUMNS,
    NO_ADDRESS,
    NO_SYNDROME,
    NO_VLAN,
    Icrc,
    Kind,
    Packets,
    Pauses,
    Recording,
)
from tests.captures import headers
from tests.captures.crc import icrc
from tests.captures.transport import extended_headers, has_aeth, has_deth, has_reth

START = 1_794_900_000_000_000_000
"""The time of the first packet, unless a test sets another: nanoseconds since the epoch."""


@dataclass(frozen=True, kw_only=True)
class Packet:
    """One packet, described. What a header of its opcode does not contain is ignored."""

    time: int = START
    kind: Kind = Kind.ROCE2
    opcode: int = 0x04
    source: str = "10.0.0.1"
    destination: str = "10.0.0.2"
    source_port: int = 0xC350
    tos: int = 0x6A
    tags: tuple[tuple[int, int], ...] = ()
    """VLAN tags from the outside in: ethertype of the tag, and its PCP, DEI and VID."""
    qp: int = 0x11
    source_qp: int = 0
    psn: int = 0
    bits: int = 0
    key: int = 0xFFFF
    payload: int = 0
    syndrome: int = 0x1F
    msn: int = 0
    message: int = 0
    icrc: Icrc = Icrc.RIGHT
    """As it is in a file that has all of the packet."""
    data: bytes = b""
    """The payload's beginning; the rest is zeros."""
    mirrored: str = ""
    """How a switch wrapped it: see `headers.mirrored`."""
    between: bytes = b""
    """IPv4 options, or IPv6 extension headers."""
    quanta: tuple[int, ...] = (0,) * 8
    classes: int = 0
    """Of a pause frame."""
    mac: bytes = headers.SOURCE_MAC

    @property
    def is_pause(self) -> bool:
        """Return whether it is a frame of flow control."""
        return self.kind in (Kind.PFC, Kind.PAUSE)

    @property
    def pad(self) -> int:
        """Return the bytes that fill the payload up to a multiple of four."""
        return -self.payload % 4

    @cached_property
    def frame(self) -> bytes:
        """Return the bytes on the wire, from the Ethernet header."""
        return self._framed(self.packet)

    def beginning(self, size: int) -> bytes:
        """Return the first bytes of `frame`; the ICRC is computed only if it is among them."""
        return (self.frame if self.length <= size else self._framed(self._packet(is_complete=False)))[:size]

    def _framed(self, packet: bytes) -> bytes:
        frame = headers.ethernet(self.ethertype, self.tags, source=self.mac) + packet
        if self.is_pause:
            frame = headers.pause(self.quanta, self.classes if self.kind is Kind.PFC else None, source=self.mac)
        return headers.mirrored(frame, self.mirrored) if self.mirrored else frame

    @property
    def ethertype(self) -> int:
        """Return what the link header announces."""
        if self.kind is Kind.ROCE1:
            return 0x8915
        return 0x0800 if ip_address(self.source).version == 4 else 0x86DD

    @cached_property
    def packet(self) -> bytes:
        """Return the bytes from the IP header, or from the global route header."""
        return self._packet(is_complete=True)

    def _packet(self, *, is_complete: bool) -> bytes:
        base = headers.bth(self.opcode, qp=self.qp, psn=self.psn, pad=self.pad, bits=self.bits, key=self.key)
        content = self.data[: self.payload].ljust(self.payload + self.pad, b"\0")
        transport = base + extended_headers(self) + content
        size = len(transport) + 4
        if self.kind is Kind.ROCE1:
            network, udp = headers.grh(self.source, self.destination, size, tos=self.tos), b""
        else:
            udp = headers.udp(self.source_port, size)
            network = headers.ip(self.source, self.destination, 8 + size, tos=self.tos, between=self.between)
        crc = icrc(network, udp, transport) if is_complete else bytes(4)
        if self.icrc is Icrc.WRONG:
            crc = bytes([crc[0] ^ 1]) + crc[1:]
        return network + udp + transport + crc

    @property
    def length(self) -> int:
        """Return the length of `frame`, without building it."""
        if self.is_pause or self.mirrored:
            return len(self.frame)
        network = {"roce1": 40, "v4": 28, "v6": 48}
        base = network["roce1" if self.kind is Kind.ROCE1 else "v4" if self.ethertype == 0x0800 else "v6"]
        between = max(len(self.between) - (self.ethertype == 0x86DD), 0)
        extended = len(extended_headers(self))
        return 14 + 4 * len(self.tags) + base + between + 12 + extended + self.payload + self.pad + 4

    def row(self) -> dict[str, Any]:
        """Return what its row must contain, with addresses as text, apart from its number."""
        if self.is_pause:
            empty = dict.fromkeys(COLUMNS.names or (), 0)
            vlan = self.tags[0][1] if self.tags else NO_VLAN
            known = {"time": self.time, "length": self.length, "kind": int(self.kind), "source": "", "destination": ""}
            return empty | known | {"vlan": vlan, "syndrome": NO_SYNDROME}
        names = [name for name in COLUMNS.names or () if name not in ("number", "vlan", "length")]
        row = {name: getattr(self, name) for name in names}
        row |= {"vlan": self.tags[0][1] if self.tags else NO_VLAN, "length": self.length}
        row["source_port"] = 0 if self.kind is Kind.ROCE1 else self.source_port
        row["source_qp"] = self.source_qp if has_deth(self.opcode) else 0
        row["message"] = self.message if has_reth(self.opcode) else 0
        row["syndrome"] = self.syndrome if has_aeth(self.opcode) else NO_SYNDROME
        row["msn"] = self.msn if has_aeth(self.opcode) else 0
        row["icrc"] = int(Icrc.NOT_CAPTURED) if self.between else int(self.icrc)
        return row


def cnp(**known: Any) -> Packet:
    """Return a congestion notification."""
    return replace(Packet(kind=Kind.CNP, opcode=0x81, tos=0xC2, bits=8, source_port=0), **known)


def pfc(quanta: dict[int, int], **known: Any) -> Packet:
    """Return a frame of priority flow control; `quanta` are those of each priority that it names."""
    times = tuple(quanta.get(priority, 0) for priority in range(8))
    classes = sum(1 << priority for priority in quanta)
    return replace(Packet(kind=Kind.PFC, quanta=times, classes=classes), **known)


def pause(quanta: int, **known: Any) -> Packet:
    """Return an 802.3x pause frame."""
    return replace(Packet(kind=Kind.PAUSE, quanta=(quanta,) * 8, classes=0xFF), **known)


def recorded(packets: Iterable[Packet], *, name: str = "file.pcap", **known: Any) -> Recording:
    """Return the recording that reading a file of these packets gives, made without one."""
    listed = list(packets)
    rows = [packet.row() for packet in listed]
    numbers = np.arange(1, len(rows) + 1, dtype="u4")
    addresses = _in_order({row[end] for row in rows for end in ("source", "destination")} - {""})
    index = {address: place for place, address in enumerate(addresses)} | {"": NO_ADDRESS}
    columns: dict[str, Any] = {"number": numbers}
    for column in COLUMNS.names or ():
        if column in ("source", "destination"):
            columns[column] = np.array([index[row[column]] for row in rows], dtype="u4")
        elif column != "number":
            columns[column] = np.array([row[column] for row in rows], dtype=COLUMNS[column])
    packets_of_it = Packets(columns, addresses, _pauses(listed))
    mirrored = sum(bool(packet.mirrored) for packet in listed)
    defaults: dict[str, Any] = {"total": len(rows), "mirrored": mirrored, "snap_length": 262144}
    return Recording(name=name, packets=packets_of_it, **(defaults | known))


def _in_order(addresses: set[str]) -> tuple[str, ...]:
    return tuple(sorted(addresses, key=lambda text: (ip_address(text).version, int(ip_address(text)))))


def _pauses(packets: list[Packet]) -> Pauses:
    chosen = [(number, packet) for number, packet in enumerate(packets, 1) if packet.is_pause]
    return Pauses(
        number=np.array([number for number, _ in chosen], dtype="u4"),
        time=np.array([packet.time for _, packet in chosen], dtype="i8"),
        sender=np.array([int.from_bytes(packet.mac, "big") for _, packet in chosen], dtype="u8"),
        classes=np.array([packet.classes for _, packet in chosen], dtype="u1"),
        quanta=np.array([packet.quanta for _, packet in chosen], dtype="u2").reshape(-1, 8),
    )


def other_frames() -> list[bytes]:
    """Return frames that are not RoCE: ARP, TCP, DNS over UDP, LLDP."""
    tcp = headers.ip("10.0.0.1", "10.0.0.2", 20, protocol=6) + bytes(20)
    dns = headers.ip("10.0.0.1", "10.0.0.2", 20) + headers.udp(40000, 12, port=53) + bytes(12)
    arp = struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + bytes(20)
    contents = ((0x0806, arp), (0x0800, tcp), (0x0800, dns), (0x88CC, bytes(46)))
    return [headers.ethernet(kind) + content for kind, content in contents]
