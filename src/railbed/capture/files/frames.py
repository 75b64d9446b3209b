"""Packets on their way through the layers of headers, all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railbed.capture.files.window import Buffer, fields

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
