"""The blocks of a pcapng file: each has its length at both ends."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.formats.lanes import Positions
from railbed.capture.files.window import Order, Window

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
SHORTEST_BLOCK = 12
LONGEST_BLOCK = 1 << 24
"""Wireshark has the same limit."""
SHORTEST = {INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, STATISTICS: 24, ENHANCED_PACKET: 32}
"""With their lengths, and without options."""


class BlockChain:
    """The blocks of a section in a window; a walk ends at the next section header."""

    alignment = 4

    def __init__(self, window: Window, order: Order) -> None:
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
