"""What both engines decode alike: numbers of protocols, sizes of headers, reasons to leave a packet out.

The link type of a file says what stands before the IP header. Packets pass through the layers of headers all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.source import Buffer, fields
from railbed.capture.opcodes import OPCODES


class Reason(IntEnum):
    """Why a packet is not among the decoded ones; the first that applies, from the outside in."""

    NONE = 0
    NOT_ROCE = 1
    CUT_OFF = 2
    FRAGMENT = 3
    MALFORMED = 4
    OTHER_LINK = 5


REASON_TEXT = {
    Reason.NOT_ROCE: "not RoCE",
    Reason.CUT_OFF: "cut off before the transport header",
    Reason.FRAGMENT: "a later fragment of an IP packet",
    Reason.MALFORMED: "malformed headers",
    Reason.OTHER_LINK: "recorded on an interface whose link type is not read",
}

IPV4, IPV6, ROCE1, FLOW_CONTROL = 0x0800, 0x86DD, 0x8915, 0x8808
VLAN_TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
MOST_TAGS = 4
MOST_EXTENSIONS = 8
EXTENSIONS = (0, 43, 44, 51, 60, 139, 140)
"""Headers of IPv6 between its own and the transport's, which say where the next begins."""
FRAGMENT_HEADER, AUTHENTICATION_HEADER = 44, 51
UDP, GRE = 17, 47
ROCE_PORT = 4791
IB_TRANSPORT = 0x1B
ERSPAN2, ERSPAN3 = 0x88BE, 0x22EB
PFC_OPCODE, PAUSE_OPCODE = 0x0101, 0x0001
BTH_BYTES, ICRC_BYTES = 12, 4
MORE_FRAGMENTS, FRAGMENT_OFFSET = 0x2000, 0x1FFF

ETHERNET_HEADER = np.dtype([("destination", "V6"), ("source", "V6"), ("kind", ">u2")])
IPV4_HEADER = np.dtype(
    [
        *(("version", "u1"), ("tos", "u1"), ("total", ">u2"), ("identification", ">u2"), ("fragment", ">u2")),
        *(("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2"), ("addresses", ">u8")),
    ]
)
IPV6_HEADER = np.dtype(
    [
        *(("version", ">u4"), ("payload", ">u2"), ("following", "u1"), ("hops", "u1")),
        *(("source", "V16"), ("destination", "V16")),
    ]
)
"""Also the global route header of RoCEv1."""
UDP_HEADER = np.dtype([("source", ">u2"), ("destination", ">u2"), ("length", ">u2"), ("checksum", ">u2")])
BTH = np.dtype([("opcode", "u1"), ("flags", "u1"), ("key", ">u2"), ("qp", ">u4"), ("psn", ">u4")])
PAUSE = np.dtype([("opcode", ">u2"), ("classes", ">u2"), ("quanta", ">u2", 8)])
PAUSE_BYTES = 4
GRE_HEADER = np.dtype([("flags", ">u2"), ("kind", ">u2")])


def _offsets(header: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each opcode where a header begins behind the base transport header; -1 if it has none."""
    offsets = np.full(256, -1, np.int64)
    for code, opcode in OPCODES.items():
        offset = opcode.offset(header)
        offsets[code] = -1 if offset is None else offset
    return offsets


HEADER_BYTES = np.zeros(256, np.int64)
for _code, _opcode in OPCODES.items():
    HEADER_BYTES[_code] = _opcode.header_bytes
TRANSPORT_BYTES = (HEADER_BYTES + BTH_BYTES).astype(np.int32)
"""With the base transport header."""
OFFSETS = AETH_OFFSET, RETH_OFFSET, DETH_OFFSET = _offsets("AETH"), _offsets("RETH"), _offsets("DETH")


class LinkType(IntEnum):
    """How a recorded packet begins."""

    UNSUPPORTED = 0
    ETHERNET = 1
    RAW = 2
    """With the IP header itself, of either version."""
    COOKED = 3
    COOKED2 = 4


SUPPORTED = {
    1: LinkType.ETHERNET,
    12: LinkType.RAW,
    14: LinkType.RAW,
    101: LinkType.RAW,
    113: LinkType.COOKED,
    228: LinkType.RAW,
    229: LinkType.RAW,
    276: LinkType.COOKED2,
}
NAMES = {
    0: "BSD loopback",
    6: "IEEE 802.5 Token Ring",
    9: "PPP",
    10: "FDDI",
    50: "PPP over serial HDLC",
    51: "PPPoE",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    108: "OpenBSD loopback",
    119: "Prism 802.11",
    127: "IEEE 802.11 with radiotap",
    147: "user-defined 0",
    189: "Linux USB",
    192: "PPI",
    195: "IEEE 802.15.4",
    197: "ERF",
    201: "Bluetooth HCI",
    220: "Linux USB, padded",
    239: "Linux netfilter log",
    247: "InfiniBand",
    249: "USBPcap",
    253: "Linux netlink",
    271: "vsock",
    272: "Nordic BLE",
}
READABLE = "Ethernet, Linux cooked and raw IP"


def link_name(number: int) -> str:
    """Return how people know a link type."""
    return f"link type {number} ({NAMES[number]})" if number in NAMES else f"link type {number}"


WIDTH = 112
"""Bytes of each packet in a table: two VLAN tags, IPv6, and the longest extended headers that are read."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Packets whose next header begins at the same place of their rows in a table."""

    buffer: Buffer
    row: NDArray[np.int64]
    """The place of each packet in its chunk."""
    start: NDArray[np.int64]
    """Where its row in the table begins in the buffer."""
    stop: NDArray[np.int64]
    """Where its recorded bytes end in the buffer."""
    table: NDArray[np.uint8]
    shortest: int
    """How many bytes of the shortest were recorded, from the beginning of its row, or fewer."""
    offset: int = 0
    """Where the next header begins in each row."""
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What the headers before contained."""

    @classmethod
    def at(
        cls,
        buffer: Buffer,
        row: NDArray[np.int64],
        start: NDArray[np.int64],
        stop: NDArray[np.int64],
        values: Mapping[str, NDArray[Any]],
    ) -> Frames:
        """Return packets whose next headers begin at these positions."""
        shortest = int((stop - start).min(initial=1 << 30))
        return cls(buffer, row, start, stop, buffer.rows(start, WIDTH), shortest, 0, values)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def position(self) -> NDArray[np.int64]:
        """Return where the next headers begin in the buffer."""
        return self.start + self.offset

    @property
    def left(self) -> NDArray[np.int64]:
        """Return how many bytes were recorded from the next header on."""
        return self.stop - self.start - self.offset

    def all_have(self, size: int) -> bool:
        """Return whether it is certain that so many bytes more of every packet were recorded."""
        return self.shortest - self.offset >= size

    def header(self, kind: np.dtype[Any], behind: int = 0) -> NDArray[Any]:
        """Return the next header of every packet, or what lies so many bytes behind its beginning."""
        return fields(self.table, self.offset + behind, kind)

    def subset(self, mask: NDArray[np.bool_]) -> Frames:
        """Return some of the packets."""
        if mask.all():
            return self
        values = {name: column[mask] for name, column in self.values.items()}
        return replace(
            self,
            row=self.row[mask],
            start=self.start[mask],
            stop=self.stop[mask],
            table=self.table[mask],
            values=values,
        )

    def with_values(self, **values: NDArray[Any]) -> Frames:
        """Return them with more that is known."""
        return replace(self, values={**self.values, **values})

    def behind(self, size: int, *, needed: int = 0) -> Frames:
        """Return them at the next header; so many bytes of it are needed in the table."""
        if self.offset + size + needed <= WIDTH:
            return replace(self, offset=self.offset + size)
        return Frames.at(self.buffer, self.row, self.position + size, self.stop, self.values)

    def behind_each(self, sizes: NDArray[np.signedinteger[Any]]) -> Frames:
        """Return them at the next header, which begins elsewhere for each packet."""
        return Frames.at(self.buffer, self.row, self.position + sizes, self.stop, self.values)
