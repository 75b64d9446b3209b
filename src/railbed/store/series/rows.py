"""A row: the time, the values and a checksum, each 64 bits wide."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from railbed.store.series.data import Floats, Integers

Buffer = bytes | bytearray
_UNSIGNED = (1 << 64) - 1


class RowFormat:
    """Packs and checks the rows of a table."""

    def __init__(self, columns: int, checksum: int) -> None:
        self.columns = columns
        self.size = 8 * (columns + 2)
        self._checksum = checksum
        self._struct = struct.Struct(f"<d{columns}q")

    def pack(self, time: float, values: Sequence[int]) -> bytes:
        """Return a row; counters beyond 63 bits are stored as the same bits."""
        try:
            body = self._struct.pack(time, *values)
        except struct.error:
            if len(values) != self.columns:
                raise ValueError(f"{len(values)} values for {self.columns} series") from None
            body = self._struct.pack(time, *map(_signed, values))
        return body + zlib.crc32(body, self._checksum).to_bytes(8, "little")

    def valid(self, data: Buffer, size: int) -> NDArray[np.bool_]:
        """Return for each complete row whether it is undamaged."""
        count, body, checksum = size // self.size, self.size - 8, self._checksum
        with memoryview(data) as view:
            computed = [
                zlib.crc32(view[start : start + body], checksum) for start in range(0, count * self.size, self.size)
            ]
        return np.asarray(self._words(data, count)[:, -1].view("<u8") == np.array(computed, np.uint64), np.bool_)

    def unpack(self, data: Buffer, size: int) -> tuple[Floats, Integers]:
        """Return times, and values as a matrix of rows and columns; both are views of the data."""
        words = self._words(data, size // self.size)
        return words[:, 0].view("<f8"), words[:, 1:-1]

    def _words(self, data: Buffer, count: int) -> Integers:
        width = self.columns + 2
        return np.frombuffer(data, "<i8", count * width).reshape(count, width)


def _signed(value: int) -> int:
    value &= _UNSIGNED
    return value - (1 << 64) if value >> 63 else value
