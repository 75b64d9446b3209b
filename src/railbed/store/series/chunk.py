"""A chunk: the rows of a minute, column by column, as compressed differences, with their roll-up.

    head        magic, number, rows, columns, sections, size; the earliest and the latest time
    directory   size and checksum of each section; then the checksum of head and directory
    sections    the times; the roll-up of every column; then groups of columns

A column is its first value, its least difference, and by how much every difference exceeds that. These are stored byte
by byte: first the lowest byte of each, and so on. Bytes that are zero in all of a group are left out.
"""

from __future__ import annotations

import struct
import zlib
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.store.series.rates import Floats, Integers

MAGIC = b"\x89rbchnk1"
HEAD = struct.Struct("<8sIIIIQdd")
_ENTRY = struct.Struct("<II")
_CHECKSUM = struct.Struct("<I")
GROUP = 64
"""Columns that are compressed together: reading a series decompresses only its group."""
LEVEL = 1
MOST_ROWS = 1 << 20
TIMES, ROLLUP, FIRST_GROUP = 0, 1, 2

Rollups = NDArray[np.float32]
"""Lowest, highest and mean value: three rows, with a column for each series."""


class ChunkSection(NamedTuple):
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
    sections: tuple[ChunkSection, ...]


def encode(number: int, times: Floats, values: Integers, rollup: Rollups, checksum: int) -> bytes:
    """Return rows as a chunk."""
    rows, columns = values.shape
    by_column = np.ascontiguousarray(values.T)
    sections = [
        encode_group(times.reshape(1, -1).view("<i8")),
        _deflate(np.ascontiguousarray(rollup, "<f4").tobytes()),
        *(encode_group(by_column[start : start + GROUP]) for start in range(0, columns, GROUP)),
    ]
    directory = b"".join(_ENTRY.pack(len(section), zlib.crc32(section)) for section in sections)
    size = HEAD.size + len(directory) + _CHECKSUM.size + sum(map(len, sections))
    head = HEAD.pack(MAGIC, number, rows, columns, len(sections), size, times.min(), times.max()) + directory
    return b"".join((head, _CHECKSUM.pack(zlib.crc32(head, checksum)), *sections))


def read_head(data: bytes, offset: int, columns: int, checksum: int) -> Chunk | None:
    """Return the chunk that begins with these bytes, at this offset of its file; None if it is damaged."""
    if len(data) < HEAD.size:
        return None
    magic, number, rows, width, count, size, first, last = HEAD.unpack_from(data)
    if magic != MAGIC or width != columns or not 0 < rows <= MOST_ROWS or count != section_count(columns):
        return None
    if not -inf < first <= last < inf:
        return None
    end = HEAD.size + count * _ENTRY.size
    if len(data) < end + _CHECKSUM.size or _CHECKSUM.unpack_from(data, end)[0] != zlib.crc32(data[:end], checksum):
        return None
    sections, at = [], offset + end + _CHECKSUM.size
    for length, section_checksum in _ENTRY.iter_unpack(data[HEAD.size : end]):
        sections.append(ChunkSection(at, length, section_checksum))
        at += length
    return Chunk(number, rows, width, first, last, at, tuple(sections)) if at == offset + size else None


def section_count(columns: int) -> int:
    """Return how many sections a chunk has."""
    return FIRST_GROUP + -(-columns // GROUP)


def head_size(columns: int) -> int:
    """Return how many bytes `read_head` needs."""
    return HEAD.size + section_count(columns) * _ENTRY.size + _CHECKSUM.size


def is_intact(section: ChunkSection, data: bytes) -> bool:
    """Whether these are the bytes of a section."""
    return len(data) == section.size and zlib.crc32(data) == section.checksum


def decode_times(chunk: Chunk, data: bytes) -> Floats:
    """Return the times of a chunk's rows."""
    times: Floats = _unpack(data, 1, chunk.rows)[0].view("<f8")
    return np.where(np.isfinite(times), times, np.nan)


def decode_rollup(chunk: Chunk, data: bytes) -> Rollups:
    """Return the roll-up of a chunk."""
    return np.frombuffer(_inflate(data, 12 * chunk.columns), "<f4").reshape(1, 3, chunk.columns)


def decode_group(group: int, chunk: Chunk, data: bytes) -> Integers:
    """Return a group's values: a row for each of its columns."""
    return _unpack(data, min(GROUP, chunk.columns - group * GROUP), chunk.rows)


def encode_group(columns: Integers) -> bytes:
    """Return the values of columns as compressed differences."""
    steps = np.diff(columns, axis=1)
    least = steps.min(axis=1) if steps.size else np.zeros(len(columns), np.int64)
    above = (steps - least[:, None]).view(np.uint64)
    wide = (int(above.max()).bit_length() + 7) // 8 if above.size else 0
    begins = _bytes_of(np.concatenate((columns[:, 0], least)))
    return bytes([wide]) + _deflate(begins.tobytes() + _bytes_of(above)[:wide].tobytes())


def _unpack(data: bytes, columns: int, rows: int) -> Integers:
    wide, count = data[0] if data else 9, columns * (rows - 1)
    if wide > 8:
        raise ValueError("not a group")
    plain = np.frombuffer(_inflate(data[1:], 16 * columns + wide * count), np.uint8)
    first, least = _words_of(plain[: 16 * columns], 8, 2 * columns).view(np.int64).reshape(2, columns)
    values = np.empty((columns, rows), np.int64)
    values[:, 0] = first
    above = _words_of(plain[16 * columns :], wide, count).view(np.int64).reshape(columns, rows - 1)
    np.add(above, least[:, None], out=values[:, 1:])
    return np.cumsum(values, axis=1, out=values)


def _bytes_of(words: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the lowest bytes of all words, then the next, and so on: eight rows."""
    return np.ascontiguousarray(words, words.dtype.newbyteorder("<")).reshape(words.size, 1).view(np.uint8).T


def _words_of(data: NDArray[np.uint8], wide: int, count: int) -> NDArray[np.uint64]:
    words = np.zeros((count, 8), np.uint8)
    for place, lane in enumerate(data.reshape(wide, count)):  # twice as fast as all at once, transposed
        words[:, place] = lane
    return words.view("<u8")[:, 0]


def _deflate(data: bytes) -> bytes:
    # Differences are noise, or the same many times: looking for longer patterns costs twice the time for a twentieth.
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_RLE)
    return compressor.compress(data) + compressor.flush()


def _inflate(data: bytes, size: int) -> bytes:
    """Return exactly as many bytes as expected; raise ValueError otherwise."""
    try:
        plain = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError("not compressed") from error
    if len(plain) != size:
        raise ValueError("too long or too short")
    return plain
