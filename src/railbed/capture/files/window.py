"""The part of a file that is in memory: a buffer that slides over it, with views of every kind at every byte."""

from __future__ import annotations

import struct
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.source import Source

SIZE = 1 << 25
"""Bytes in memory at a time; a record is shorter."""
MARGIN = 1 << 12
"""Bytes behind them that views may touch without harm, whatever a header claims."""
Order = Literal["<", ">"]


class Window:
    """A buffer that slides over a source. Positions are places in the buffer."""

    def __init__(self, source: Source, size: int | None = None) -> None:
        self.source = source
        self.size = size or SIZE
        self.bytes = np.zeros(self.size + MARGIN, np.uint8)
        self.memory = self.bytes.data
        self.end = 0
        """Where the bytes end that were read."""
        self.before = 0
        """Bytes of the file that lie before the buffer."""
        self.complete = False
        """Whether the file ends here."""
        self._words = {order: self.view(f"{order}u4") for order in ("<", ">")}
        self.advance(0)

    def advance(self, position: int) -> None:
        """Drop what lies before a position, and read on."""
        rest = self.end - position
        self.memory[:rest] = self.memory[position : self.end]
        self.before += position
        self.end = rest
        while self.end < self.size and not self.complete:
            count = self.source.readinto(self.memory[self.end : self.size])
            self.complete = count == 0
            self.end += count

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

    def unpack(self, form: str, position: int) -> tuple[Any, ...]:
        """Return the values at a position."""
        return struct.unpack_from(form, self.memory, position)

    def copy(self, position: int, length: int) -> bytes:
        """Return some of the bytes."""
        return bytes(self.memory[position : position + length])


def fields(rows: NDArray[np.uint8], offset: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return a structure at the same place of every row."""
    structures: NDArray[Any] = rows[:, offset : offset + kind.itemsize].view(kind)[:, 0]
    return structures
