"""The blocks of a pcapng file, each with its length at both ends; link types and clocks of its interfaces."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.formats.lanes import Positions
from railbed.capture.files.layers import SUPPORTED, LinkType
from railbed.capture.files.source import FileWindow, Order

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
SHORTEST_BLOCK = 12
LONGEST_BLOCK = 1 << 24
"""Wireshark has the same limit."""
SHORTEST = {INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, STATISTICS: 24, ENHANCED_PACKET: 32}
"""With their lengths, and without options."""


class BlockChain:
    """The blocks of a section in a window; a walk ends at the next section header."""

    alignment = 4

    def __init__(self, window: FileWindow, order: Order) -> None:
        self.window = window
        self.order = order
        self.words = window.words(order)

    def walk(self, position: int, until: int, most: int) -> tuple[list[int], int]:
        """Return where the next blocks begin, and where the walk ended."""
        head = struct.Struct(f"{self.order}II").unpack_from
        tail = struct.Struct(f"{self.order}I").unpack_from
        memory, end = self.window.buffer.memory, self.window.end
        last = min(until, end - SHORTEST_BLOCK + 1)
        positions: list[int] = []
        while position < last and len(positions) < most:
            kind, length = head(memory, position)
            following = position + length
            if length < SHORTEST_BLOCK or length & 3 or following > end or kind == SECTION:
                break
            if tail(memory, following - 4)[0] != length:
                break
            positions.append(position)
            position = following
        return positions, position

    def following(self, positions: Positions) -> Positions:
        """Return where the blocks after these begin, or -1."""
        end = self.window.end
        length = self.words[positions + 4].astype(np.int64)
        following = positions + length
        bad = (length < SHORTEST_BLOCK) | (length & 3 != 0) | (following > end) | (self.words[positions] == SECTION)
        bad |= positions > end - SHORTEST_BLOCK
        following[bad] = SHORTEST_BLOCK
        following[bad | (self.words[following - 4] != length)] = -1
        return following

    def candidates(self, starts: Positions, count: int) -> NDArray[np.bool_]:
        """Return which places might be blocks, by their length."""
        width = 4 * count
        rows = self.window.buffer.rows(starts + 4, width)
        length = np.ndarray((len(starts), count), f"{self.order}u4", rows.data, 0, (width, 4))
        likely: NDArray[np.bool_] = length - np.uint32(SHORTEST_BLOCK) < np.uint32(1 << 18)
        aligned: NDArray[np.bool_] = length & np.uint32(3) == 0
        return likely & aligned

    def plausible(self, positions: Positions) -> NDArray[np.bool_]:
        """Return which positions look like blocks."""
        return self.following(np.minimum(positions, self.window.end)) >= 0


def options(content: bytes, order: Order) -> Iterator[tuple[int, bytes]]:
    """Yield the options of a block: code and value. One that claims to be longer than the block ends them."""
    position = 0
    while position + 4 <= len(content):
        code, length = struct.unpack_from(f"{order}HH", content, position)
        value = content[position + 4 : position + 4 + length]
        if code == 0 or len(value) < length:
            return
        yield code, value
        position += 4 + length + (-length % 4)


RESOLUTION, OFFSET, DROPPED = 9, 14, 5
"""Codes of options: if_tsresol, if_tsoffset, isb_ifdrop."""
MOST_SECONDS = 9_200_000_000
"""What fits into 64 bits as nanoseconds; times beyond it are put there."""
ENDLESS = (1 << 64) - 1
NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """How to turn ticks into nanoseconds: seconds by `unit`, and the rest as (rest >> shift) * factor // divisor."""

    unit: int = 10**6
    shift: int = 0
    factor: int = 1000
    divisor: int = 1
    offset: int = 0
    """Seconds to add."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface."""

    number: int
    """Of the link type, as in the file."""
    snap_length: int = 0
    clock: TimeUnit = TimeUnit()

    @property
    def link(self) -> LinkType:
        """Return how its packets begin."""
        return SUPPORTED.get(self.number, LinkType.UNSUPPORTED)


def read_interface(block: bytes, order: Order) -> Interface:
    """Return the interface that a block describes."""
    number, _, snap_length = struct.unpack_from(f"{order}HHI", block, 8)
    resolution, offset = 6, 0
    for code, value in options(block[16:-4], order):
        if code == RESOLUTION and len(value) == 1:
            resolution = value[0]
        if code == OFFSET and len(value) == 8:
            offset = struct.unpack(f"{order}q", value)[0]
    return Interface(number, snap_length, make_clock(resolution, offset))


def make_clock(resolution: int, offset: int) -> TimeUnit:
    """Return the clock for if_tsresol: a negative power of ten, or of two with the highest bit set."""
    offset = max(-MOST_SECONDS, min(MOST_SECONDS, offset))
    power = resolution & 127
    if resolution & 128:
        if power > 63:
            return TimeUnit(ENDLESS, 0, 1, ENDLESS, offset)
        return TimeUnit(1 << power, max(0, power - 32), NANOSECONDS, 1 << min(power, 32), offset)
    if power > 19:
        return TimeUnit(ENDLESS, 0, 1, ENDLESS, offset)
    return TimeUnit(10**power, 0, 10 ** max(0, 9 - power), 10 ** max(0, power - 9), offset)


def nanoseconds(ticks: NDArray[np.uint64], clocks: list[TimeUnit], index: NDArray[Any]) -> NDArray[np.int64]:
    """Return times since the epoch; `index` names the clock of each."""
    if len(set(clocks)) == 1:  # numbers instead of columns make it much faster
        clocks, index = clocks[:1], np.zeros(1, np.int64)
    names = ("unit", "shift", "factor", "divisor")
    table = np.array([[getattr(clock, name) for name in names] for clock in clocks], np.uint64)
    unit, shift, factor, divisor = (table[:, place] for place in range(len(names)))
    offset = np.array([clock.offset for clock in clocks])
    if len(clocks) > 1:
        unit, shift, factor, divisor, offset = (values[index] for values in (unit, shift, factor, divisor, offset))
    seconds = ticks // unit
    rest = ((ticks - seconds * unit) >> shift) * factor // divisor
    limited = np.minimum(seconds, np.uint64(MOST_SECONDS)).astype(np.int64) + offset
    time: NDArray[np.int64] = np.clip(limited, -MOST_SECONDS, MOST_SECONDS) * NANOSECONDS + rest.astype(np.int64)
    return time
