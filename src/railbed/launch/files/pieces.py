"""A parcel as one sequence of bytes, cut into pieces with a hash each: a copy can be continued, and passed on early.

The hash of a piece covers its files from their beginnings to where the piece ends, which the hash of a file passes
anyway: all hashes together need every byte once. Pieces are verified in order, as they arrive. Standard library only:
it runs on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class ByteRange:
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
    """For each piece, the SHA-256 over the hashes of its files, each from its beginning to where the piece ends."""

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

    def spans(self, index: int) -> Iterator[ByteRange]:
        """Yield the parts of files that a piece consists of."""
        begin, end = self.start(index), self.start(index + 1)
        at = 0
        for name, size in self.files:
            first, last = max(begin, at), min(end, at + size)
            if first < last:
                yield ByteRange(name, first - at, last - first)
            at += size

    def as_message(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"files": [list(file) for file in self.files], "sums": list(self.sums)}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Pieces:
        """Read what `as_message` returned."""
        return cls(tuple((str(name), int(size)) for name, size in message["files"]), tuple(message["sums"]))


class PieceVerifier:
    """Verifies pieces, from the first one on."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._file = hashlib.sha256()
        """Of the file that the last piece ends in, up to there."""
        self.verified = 0

    def add(self, data: bytes | bytearray | memoryview) -> bool:
        """Return whether data is the content of the next piece; otherwise that piece is still the next."""
        if len(data) != self._pieces.length(self.verified):
            return False
        file, sums, view = self._file.copy(), hashlib.sha256(), memoryview(data)
        for span in self._pieces.spans(self.verified):
            if not span.offset:
                file = hashlib.sha256()
            file.update(view[: span.length])
            sums.update(file.digest())
            view = view[span.length :]
        if sums.hexdigest() != self._pieces.sums[self.verified]:
            return False
        self._file = file
        self.verified += 1
        return True


class PieceHasher:
    """Hashes files one after another, and the pieces that they are cut into."""

    def __init__(self) -> None:
        self._sums: list[str] = []
        self._piece, self._length = hashlib.sha256(), 0
        self._file, self._in_piece = hashlib.sha256(), 0
        """Of the current file, and how many of its bytes are in the current piece."""

    def update(self, data: bytes) -> None:
        """Add bytes to the current file."""
        view = memoryview(data)
        while view:
            part = view[: PIECE_BYTES - self._length]
            self._file.update(part)
            self._length += len(part)
            self._in_piece += len(part)
            view = view[len(part) :]
            if self._length == PIECE_BYTES:
                self._end_piece()

    def end_file(self) -> str:
        """Return the hash of the current file; what follows belongs to the next."""
        self._end_part()
        digest = self._file.hexdigest()
        self._file = hashlib.sha256()
        return digest

    def finish(self) -> tuple[str, ...]:
        """Return the hashes of all pieces."""
        if self._length:
            self._end_piece()
        return tuple(self._sums)

    def _end_piece(self) -> None:
        self._end_part()
        self._sums.append(self._piece.hexdigest())
        self._piece, self._length = hashlib.sha256(), 0

    def _end_part(self) -> None:
        if self._in_piece:
            self._piece.update(self._file.digest())
        self._in_piece = 0
