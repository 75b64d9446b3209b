"""A parcel as one sequence of bytes, cut into pieces with a hash each: a copy can be continued, and passed on early.

Standard library only: it runs on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Span:
    """A part of a piece that lies in one file."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True)
class Pieces:
    """The files of a parcel, one after another, in pieces of equal length; the last may be shorter."""

    files: Sequence[tuple[str, int]]
    """Name and size of each."""
    sums: Sequence[str]
    """SHA-256 of each piece."""

    @property
    def count(self) -> int:
        """Return the number of pieces."""
        return len(self.sums)

    @property
    def total(self) -> int:
        """Return the bytes of all files."""
        return sum(size for _, size in self.files)

    def start(self, index: int) -> int:
        """Return where a piece begins; for the number of pieces, where all of them end."""
        return min(index * PIECE_BYTES, self.total)

    def length(self, index: int) -> int:
        """Return the bytes of a piece."""
        return self.start(index + 1) - self.start(index)

    def spans(self, index: int) -> Iterator[Span]:
        """Yield the parts of files that a piece consists of."""
        begin, end = self.start(index), self.start(index + 1)
        at = 0
        for name, size in self.files:
            first, last = max(begin, at), min(end, at + size)
            if first < last:
                yield Span(name, first - at, last - first)
            at += size

    def is_piece(self, index: int, data: bytes | bytearray | memoryview) -> bool:
        """Return whether data is the content of a piece."""
        return len(data) == self.length(index) and hashlib.sha256(data).hexdigest() == self.sums[index]

    def as_message(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"files": [list(file) for file in self.files], "sums": list(self.sums)}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Pieces:
        """Read what `as_message` returned."""
        return cls(tuple((str(name), int(size)) for name, size in message["files"]), tuple(message["sums"]))


class PieceHasher:
    """Hashes a sequence of bytes, piece by piece."""

    def __init__(self) -> None:
        self.sums: list[str] = []
        self._digest = hashlib.sha256()
        self._length = 0

    def update(self, data: bytes) -> None:
        """Add bytes."""
        view = memoryview(data)
        while view:
            part = view[: PIECE_BYTES - self._length]
            self._digest.update(part)
            self._length += len(part)
            view = view[len(part) :]
            if self._length == PIECE_BYTES:
                self._close()

    def finish(self) -> tuple[str, ...]:
        """Return the hashes of all pieces."""
        if self._length:
            self._close()
        return tuple(self.sums)

    def _close(self) -> None:
        self.sums.append(self._digest.hexdigest())
        self._digest, self._length = hashlib.sha256(), 0
