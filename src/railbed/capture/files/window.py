"""The part of a file that is in memory: a buffer that slides over it, with views of every kind at every byte."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.source import Source

SIZE = 1 << 25
"""Bytes in memory at a time; a record is shorter."""
MARGIN = 1 << 12
"""Bytes behind them that views may touch without harm, whatever a header claims."""
Order = Literal["<", ">"]


class Buffer:
    """Bytes in memory, with views of every kind at every byte. Positions are places in it."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size + MARGIN, np.uint8)
        self.memory = self.bytes.data
        self._words = {order: self.view(f"{order}u4") for order in ("<", ">")}

    def view(self, kind: str) -> NDArray[Any]:
        """Return the values of a type that begin at each byte: they overlap, and are not aligned."""
        dtype = np.dtype(kind)
        return np.ndarray((len(self.bytes) - dtype.itemsize + 1,), dtype, self.bytes.data, 0, (1,))

    def words(self, order: Order) -> NDArray[np.uint32]:
        """Return the 32-bit numbers that begin at each byte."""
        return self._words[order]

    def rows(self, positions: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
        """Return so many bytes from each position, as a table: one copy per row is far cheaper than one per field."""
        return self.view(f"V{width}")[positions].view(np.uint8).reshape(len(positions), width)

    def copy(self, position: int, length: int) -> bytes:
        """Return some of the bytes."""
        return bytes(self.memory[position : position + length])


class Window:
    """The part of a source that is in memory.

    It has two buffers in turns: while one is filled, what was found in the other may still be decoded.
    """

    def __init__(self, source: Source, size: int | None = None) -> None:
        self.source = source
        self.size = size or SIZE
        self.buffer = Buffer(self.size)
        self._other: Buffer | None = None
        self.end = 0
        """Where the bytes end that were read."""
        self.before = 0
        """Bytes of the file that lie before the buffer."""
        self.complete = False
        """Whether the file ends here."""
        self._fill()

    def advance(self, position: int) -> None:
        """Drop what lies before a position, and read on."""
        following = self._other or Buffer(self.size)
        rest = self.end - position
        following.memory[:rest] = self.buffer.memory[position : self.end]
        self._other, self.buffer = self.buffer, following
        self.before += position
        self.end = rest
        self._fill()

    def _fill(self) -> None:
        while self.end < self.size and not self.complete:
            count = self.source.readinto(self.buffer.memory[self.end : self.size])
            self.complete = count == 0
            self.end += count

    def words(self, order: Order) -> NDArray[np.uint32]:
        """Return the 32-bit numbers that begin at each byte of the buffer."""
        return self.buffer.words(order)

    def copy(self, position: int, length: int) -> bytes:
        """Return some of the bytes."""
        return self.buffer.copy(position, length)


def fields(rows: NDArray[np.uint8], offset: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return a structure at the same place of every row."""
    structures: NDArray[Any] = rows[:, offset : offset + kind.itemsize].view(kind)[:, 0]
    return structures
