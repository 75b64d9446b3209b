"""A chunk: the rows of a minute, column by column, as compressed differences, with their roll-up.

    head        magic, number, rows, columns, sections, size; the times of the first and the last row
    directory   size and checksum of each section; then the checksum of head and directory
    sections    the times; the roll-up of every column; then groups of columns

The differences of a group are folded to unsigned numbers, so that small ones have many zero bytes, and stored byte by
byte: first the lowest byte of each, and so on. Bytes that are zero in all of them are left out.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.store.series.data import Floats, Integers

MAGIC = b"\x89rbchnk1"
HEAD = struct.Struct("<8sIIIIQdd")
_ENTRY = struct.Struct("<II")
_CHECKSUM = struct.Struct("<I")
GROUP = 32
"""Columns that are compressed together: reading a series decompresses only its group."""
LEVEL = 1
MOST_ROWS = 1 << 20
TIMES, ROLLUP, FIRST_GROUP = 0, 1, 2

Rollups = NDArray[np.float32]
"""Lowest, highest and mean value: three rows, with a column for each series."""


class Section(NamedTuple):
    """Where a section is in the file."""

    offset: int
    size: int
    checksum: int


class Chunk(NamedTuple):
    """A chunk of a file, without its data."""

    number: int
    rows: int
    columns: int
    first: float
    last: float
    end: int
    """Where the chunk ends in the file."""
    sections: tuple[Section, ...]


def encode(number: int, times: Floats, values: Integers, rollup: Rollups, checksum: int) -> bytes:
    """Return rows as a chunk."""
    rows, columns = values.shape
    by_column = np.ascontiguousarray(values.T)
    sections = [
        _pack(times.reshape(1, -1).view("<i8")),
        zlib.compress(np.ascontiguousarray(rollup, "<f4").tobytes(), LEVEL),
        *(_pack(by_column[start : start + GROUP]) for start in range(0, columns, GROUP)),
    ]
    directory = b"".join(_ENTRY.pack(len(section), zlib.crc32(section)) for section in sections)
    size = HEAD.size + len(directory) + _CHECKSUM.size + sum(map(len, sections))
    head = HEAD.pack(MAGIC, number, rows, columns, len(sections), size, times[0], times[-1]) + directory
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(head, checksum)), *sections))


def read_head(data: bytes, offset: int, columns: int, checksum: int) -> Chunk | None:
    """Return the chunk that begins with these bytes, at this offset of its file; None if it is damaged."""
    if len(data) < HEAD.size:
        return None
    magic, number, rows, width, count, size, first, last = HEAD.unpack_from(data)
    if magic != MAGIC or width != columns or not 0 < rows <= MOST_ROWS or count != section_count(columns):
        return None
    end = HEAD.size + count * _ENTRY.size
    if len(data) < end + _CHECKSUM.size or _CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[:end], checksum):
        return None
    sections, at = [], offset + end + _CHECKSUM.size
    for length, section_checksum in _ENTRY.iter_unpack(data[HEAD.size : end]):
        sections.append(Section(at, length, section_checksum))
        at += length
    return Chunk(number, rows, width, first, last, at, tuple(sections)) if at == offset + size else None


def section_count(columns: int) -> int:
    """Return how many sections a chunk has."""
    return FIRST_GROUP + -(-columns // GROUP)


def head_size(columns: int) -> int:
    """Return how many bytes `read_head` needs."""
    return HEAD.size + section_count(columns) * _ENTRY.size + _CHECKSUM.size


def is_intact(section: Section, data: bytes) -> bool:
    """Whether these are the bytes of a section."""
    return len(data) == section.size and zlib.crc32(data) == section.checksum


def decode_times(chunk: Chunk, data: bytes) -> Floats:
    """Return the times of a chunk's rows."""
    times: Floats = _unpack(data, 1, chunk.rows)[0].view("<f8")
    return times


def decode_rollup(chunk: Chunk, data: bytes) -> Rollups:
    """Return the roll-up of a chunk."""
    return np.frombuffer(_inflate(data, 12 * chunk.columns), "<f4").reshape(3, chunk.columns)


def decode_group(chunk: Chunk, group: int, data: bytes) -> Integers:
    """Return a group's values: a row for each of its columns."""
    return _unpack(data, min(GROUP, chunk.columns - group * GROUP), chunk.rows)


def _pack(columns: Integers) -> bytes:
    """Return columns as compressed differences."""
    words = columns.view("<u8")
    steps = words[:, 1:] - words[:, :-1]
    folded = (steps << np.uint64(1)) ^ (np.uint64(0) - (steps >> np.uint64(63)))
    wide = (int(folded.max()).bit_length() + 7) // 8 if folded.size else 0
    first = np.ascontiguousarray(words[:, 0]).view(np.uint8).reshape(len(words), 8).T
    planes = folded.reshape(folded.size, 1).view(np.uint8).T[:wide]
    return bytes([wide]) + zlib.compress(first.tobytes() + planes.tobytes(), LEVEL)


def _unpack(data: bytes, columns: int, rows: int) -> Integers:
    wide = data[0] if data else 9
    if wide > 8:
        raise ValueError("not a group")
    plain = np.frombuffer(_inflate(data[1:], columns * (8 + wide * (rows - 1))), np.uint8)
    words = np.empty((columns, rows), "<u8")
    words[:, 0] = np.ascontiguousarray(plain[: columns * 8].reshape(8, columns).T).view("<u8")[:, 0]
    folded = np.zeros((columns * (rows - 1), 8), np.uint8)
    folded[:, :wide] = plain[columns * 8 :].reshape(wide, columns * (rows - 1)).T
    steps = folded.view("<u8").reshape(columns, rows - 1)
    words[:, 1:] = (steps >> np.uint64(1)) ^ (np.uint64(0) - (steps & np.uint64(1)))
    return np.cumsum(words, axis=1, dtype=np.uint64).view(np.int64)


def _inflate(data: bytes, size: int) -> bytes:
    """Return exactly as many bytes as expected; raise ValueError otherwise."""
    try:
        plain = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError("not compressed") from error
    if len(plain) != size:
        raise ValueError("too long or too short")
    return plain
