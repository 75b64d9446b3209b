"""The packets of one recording, as columns: what reading produces, and all that analysis needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.model.text import plural


class Kind(IntEnum):
    """What a packet is."""

    ROCE2 = 1
    ROCE1 = 2
    CNP = 3
    """A congestion notification: opcode 0x81."""
    PFC = 4
    """A priority flow control frame; its classes and times are in `pauses`."""
    PAUSE = 5
    """An 802.3x pause frame, for all priorities."""


class Bit(IntFlag):
    """Flags of the base transport header."""

    ACK_REQUEST = 1
    SOLICITED = 2
    FECN = 4
    BECN = 8
    MIGRATION = 16
    CUT = 32
    """Not in the header: what follows it was not recorded; `source_qp`, `syndrome`, `msn`, `message` are unknown."""


class Icrc(IntEnum):
    """What the invariant CRC says."""

    NOT_CAPTURED = 0
    """Or not defined: the packet is a fragment, or has IP options or extension headers."""
    RIGHT = 1
    WRONG = 2


COLUMNS = np.dtype(
    [
        ("number", "u4"),  # the packet's number in its file, from 1, as Wireshark counts
        ("time", "i8"),  # nanoseconds since the epoch, of the clock of whoever recorded it
        ("length", "u4"),  # bytes on the wire, as the file says
        ("kind", "u1"),  # a Kind
        ("opcode", "u1"),
        ("source", "u4"),  # an index of `addresses`; NO_ADDRESS for pause frames
        ("destination", "u4"),
        ("source_port", "u2"),  # of UDP; 0 for RoCEv1
        ("tos", "u1"),  # DSCP (upper six bits) and ECN (lower two), or the IPv6 traffic class
        ("vlan", "u2"),  # PCP, DEI and VID of the outer tag; NO_VLAN without a tag
        ("qp", "u4"),  # the destination queue pair
        ("source_qp", "u4"),  # of a datagram (DETH), otherwise 0
        ("psn", "u4"),
        ("bits", "u1"),  # Bit flags
        ("key", "u2"),  # the partition key
        ("payload", "u4"),  # bytes of the message in this packet, without headers, padding and ICRC
        ("syndrome", "u1"),  # of an AETH; NO_SYNDROME without one
        ("msn", "u4"),  # of an AETH, otherwise 0
        ("message", "u4"),  # the length that a RETH announces, otherwise 0
        ("icrc", "u1"),  # an Icrc
    ]
)
NO_VLAN = 0xFFFF
NO_SYNDROME = 0xFF
NO_ADDRESS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pause frames of a recording, one row each, in order."""

    number: NDArray[np.uint32]
    time: NDArray[np.int64]
    sender: NDArray[np.uint64]
    """The MAC address that sent it."""
    classes: NDArray[np.uint8]
    """A bit per priority; all eight for an 802.3x pause."""
    quanta: NDArray[np.uint16]
    """One column per priority: the time in units of 512 bits; 0 means go on."""


@dataclass(frozen=True, slots=True)
class Packets:
    """The RDMA and pause packets of a recording, in the order of the file."""

    columns: dict[str, NDArray[Any]]
    """An array of equal length for each name in COLUMNS, of that type."""
    addresses: tuple[str, ...]
    """IP addresses (RoCEv2) and GIDs (RoCEv1), as text, in numerical order, IPv4 first."""
    pauses: Pauses

    def __len__(self) -> int:
        return len(self.columns["number"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def select(self, mask: NDArray[np.bool_]) -> Packets:
        """Return the packets that the mask selects; pause frames stay."""
        return Packets({name: column[mask] for name, column in self.columns.items()}, self.addresses, self.pauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One file of packets, from one port of a device or from somebody else's file."""

    name: str
    """How people recognise it: `node1/rail0`, or the file's name."""
    packets: Packets
    file: str = ""
    """The file to open in Wireshark; empty if there is none any more."""
    device: str = ""
    port: str = ""
    addresses: tuple[str, ...] = ()
    """The port's own addresses, which tell apart what it sent and what it received; empty if unknown."""
    span: tuple[int, int] | None = None
    """From when until when it was recorded, by the same clock as the packets; None if only the packets tell."""
    snap_length: int = 0
    """At most so many bytes of each packet were recorded; 0 if unknown."""
    total: int = 0
    """Packets in the file, of all kinds."""
    other: dict[str, int] = field(default_factory=dict)
    """How many packets are not in `packets`, by reason: not RoCE, cut off before the transport header, …"""
    mirrored: int = 0
    """How many of `packets` a switch mirrored (ERSPAN); addresses and marks are those of the mirrored packet."""
    truncated: bool = False
    """The last record is incomplete."""
    damage: str = ""
    """Why reading stopped before the end of the file, as a sentence; what came before is in `packets`."""
    dropped: int | None = None
    """Packets that the recorder lost; None if nobody counted."""

    @property
    def defect(self) -> str:
        """Why the file ends before the recording did, as a sentence; empty if it is complete."""
        if self.damage or not self.truncated:
            return self.damage
        return f"the file ends in the middle of a packet after {plural(self.total, 'packet')}: cut"
