"""The classic format of capture files: a header of 24 bytes, then records of 16 bytes and the packet.

What every format yields is here, too: where the packets of a window are, and what the format says about them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.formats.lanes import Positions, RecordChain
from railbed.capture.files.source import Buffer, FileWindow, Order, fields

HEADER = 24
RECORD = 16
LONGEST_PACKET = 262144
"""More bytes of one packet than that are a lie; libpcap and Wireshark have the same limit."""
MAGIC: dict[bytes, tuple[Order, int]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""The byte order, and the nanoseconds in a unit of its times."""
NEAR_SECONDS = 40 * 86400
"""Lanes expect times to be so close to those of the records before."""


@dataclass(frozen=True, slots=True)
class PcapHeader:
    """What the file's header says."""

    order: Order
    unit: int
    """Nanoseconds per unit of the second part of a time."""
    snap_length: int
    link: int


def read_header(start: bytes) -> PcapHeader:
    """Return the header of a file that begins with one of MAGIC and is long enough."""
    order, unit = MAGIC[start[:4]]
    snap_length, link = struct.unpack_from(f"{order}II", start, 16)
    return PcapHeader(order, unit, snap_length, link & 0xFFFF)


class PcapChain:
    """The records of a window."""

    alignment = 1

    def __init__(self, window: FileWindow, header: PcapHeader) -> None:
        self.window = window
        self.header, self.order = header, header.order
        self.words = window.words(header.order)
        self.near = 0
        """The seconds of a record close by."""

    def walk(self, position: int, until: int, most: int) -> tuple[list[int], int]:
        """Return where the next records begin, and where the walk ended."""
        unpack = struct.Struct(f"{self.header.order}I").unpack_from
        memory, last = self.window.buffer.memory, min(until, self.window.end - RECORD + 1)
        end = self.window.end
        positions: list[int] = []
        if position < last:
            self.near = int(self.words[position])
        while position < last and len(positions) < most:
            captured = unpack(memory, position + 8)[0]
            following = position + RECORD + captured
            if captured > LONGEST_PACKET or following > end:
                break
            positions.append(position)
            position = following
        return positions, position

    def following(self, positions: Positions) -> Positions:
        """Return where the records after these begin, or -1."""
        captured = self.words[positions + 8]
        following = positions + captured
        following += RECORD
        bad = (captured > LONGEST_PACKET) | (following > self.window.end)
        if bad.any():
            following[bad] = -1
        return following

    def candidates(self, starts: Positions, count: int) -> NDArray[np.bool_]:
        """Return which places might be records, by their seconds."""
        rows = self.window.buffer.rows(starts, count + 4)
        seconds = np.ndarray((len(starts), count), f"{self.header.order}u4", rows.data, 0, (count + 4, 1))
        return (seconds - np.uint32(self.near - NEAR_SECONDS & 0xFFFFFFFF)) < np.uint32(2 * NEAR_SECONDS)

    def plausible(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which positions look like records."""
        positions = np.minimum(positions, self.window.end)
        seconds, fraction = self.words[positions], self.words[positions + 4]
        captured, length = self.words[positions + 8], self.words[positions + 12]
        near = (seconds - np.uint32(self.near - NEAR_SECONDS & 0xFFFFFFFF)) < np.uint32(2 * NEAR_SECONDS)
        sound = (fraction < 10**9 // self.header.unit) & (captured <= length) & (captured <= LONGEST_PACKET)
        return near & sound & (length < 1 << 20)


def is_damaged(chain: PcapChain, position: int) -> bool:
    """Return whether a walk ended at a record whose length is absurd, not only incomplete."""
    return position + RECORD <= chain.window.end and int(chain.words[position + 8]) > LONGEST_PACKET


def record_fields(
    buffer: Buffer, header: PcapHeader, starts: Positions
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """Return the times, captured bytes and lengths of the records that begin at these positions."""
    word = f"{header.order}u4"
    kind = np.dtype([("seconds", word), ("fraction", word), ("captured", word), ("length", word)])
    record = fields(buffer.rows(starts, RECORD), 0, kind)
    time = record["seconds"].astype(np.int64) * 10**9 + record["fraction"].astype(np.int64) * header.unit
    return time, record["captured"].astype(np.int64), record["length"].astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records of a window, one row each."""

    start: NDArray[np.int64]
    """Where the packet's bytes begin in the window."""
    captured: NDArray[np.int64]
    length: NDArray[np.uint32]
    time: NDArray[np.int64]
    link: NDArray[np.uint8]
    """A Link for each."""

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def empty(cls) -> Records:
        """Return no records."""
        none = np.empty(0, np.int64)
        return cls(none, none, none.astype(np.uint32), none, none.astype(np.uint8))

    @classmethod
    def together(cls, parts: list[Records]) -> Records:
        """Return records that follow each other as one."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*((part.start, part.captured, part.length, part.time, part.link) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns)) if parts else cls.empty()

    def part(self, begin: int, end: int) -> Records:
        """Return some of them."""
        part = slice(begin, end)
        return Records(self.start[part], self.captured[part], self.length[part], self.time[part], self.link[part])


@dataclass(slots=True)
class FileState:
    """What reading the format itself found out."""

    snap_length: int = 0
    dropped: int | None = None
    truncated: bool = False
    damage: str = ""
    """Why reading ended early, as a sentence."""


class RecordWalk(Protocol):
    """How to find where records begin: in lanes with numpy, or one after another with numba."""

    def __call__(self, chain: RecordChain, position: int, end: int, *, alone: bool = False) -> tuple[Positions, int]:
        """Return where the records begin, and where the walk ended."""
