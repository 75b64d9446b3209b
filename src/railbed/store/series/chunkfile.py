"""Reads a file of chunks, also while it grows. Decoded chunks are kept up to a limit, the most recently used."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from railbed.model.meters import MISSING
from railbed.store.series.chunk import (
    FIRST_GROUP,
    GROUP,
    MAGIC,
    ROLLUP,
    TIMES,
    Chunk,
    Rollups,
    decode_group,
    decode_rollup,
    decode_times,
    head_size,
    is_intact,
    read_head,
)
from railbed.store.series.files import FOR_READING, read_at
from railbed.store.series.rates import Floats, Integers

MOST_BYTES = 256 << 20

T = TypeVar("T", bound=np.generic)


class ArrayCache:
    """Arrays by key, each joined from the chunks of a block, to which chunks may be added."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._arrays: OrderedDict[Hashable, tuple[int, NDArray[Any]]] = OrderedDict()

    def extend(
        self, key: Hashable, chunks: Sequence[Chunk], decode: Callable[[Chunk], NDArray[T]], *, axis: int
    ) -> NDArray[T]:
        """Return the decoded chunks of a block as one array; only new chunks are decoded."""
        count, array = self._arrays.pop(key, (0, None))
        if array is not None and count == len(chunks):
            self._arrays[key] = count, array
            return array
        parts = [] if array is None else [array]
        parts += [decode(chunk) for chunk in chunks[count:]]
        joined: NDArray[T] = np.concatenate(parts, axis=axis)
        self._bytes += joined.nbytes - (0 if array is None else array.nbytes)
        self._arrays[key] = len(chunks), joined
        while self._bytes > self._most_bytes and len(self._arrays) > 1:
            _, (_, dropped) = self._arrays.popitem(last=False)
            self._bytes -= dropped.nbytes
        return joined


BLOCK = 64
"""Chunks that are decoded and cached together."""

Block = tuple[int, Sequence[Chunk]]
"""Chunks that follow each other, and the index of the first."""


class ChunkFile:
    """The intact chunks of a file; their data is decoded when it is needed."""

    def __init__(self, path: Path, columns: int, checksum: int, cache: ArrayCache) -> None:
        self.chunks: list[Chunk] = []
        self.numbers: set[int] = set()
        self.first, self.last = inf, -inf
        """The earliest and the latest time."""
        self.damaged = 0
        self._path = path
        self._columns = columns
        self._checksum = checksum
        self._cache = cache
        self._end = 0

    def refresh(self) -> bool:
        """Read the heads of new chunks; return whether there are any."""
        before = len(self.chunks)
        with suppress(OSError):
            descriptor = os.open(self._path, FOR_READING)
            try:
                size = os.fstat(descriptor).st_size
                while self._end < size and (chunk := self._next(descriptor, size)):
                    self._add(chunk)
            finally:
                os.close(descriptor)
        return len(self.chunks) > before

    def _add(self, chunk: Chunk) -> None:
        self._end = chunk.end
        self.chunks.append(chunk)
        self.numbers.add(chunk.number)
        self.first, self.last = min(self.first, chunk.first), max(self.last, chunk.last)

    def _next(self, descriptor: int, size: int) -> Chunk | None:
        """Return the next complete chunk; if it is not where it should be, the next that is intact."""
        chunk = self._at(descriptor, self._end, size)
        if chunk is not None:
            return chunk
        rest = os.pread(descriptor, size - self._end, self._end)
        at = rest.find(MAGIC, 1)
        while at >= 0:
            chunk = self._at(descriptor, self._end + at, size)
            if chunk is not None:
                self.damaged += 1
                return chunk
            at = rest.find(MAGIC, at + 1)
        return None

    def _at(self, descriptor: int, offset: int, size: int) -> Chunk | None:
        data = os.pread(descriptor, head_size(self._columns), offset)
        chunk = read_head(data, offset, self._columns, self._checksum)
        if chunk is None or chunk.end > size or chunk.number in self.numbers:
            return None
        times = chunk.sections[TIMES]
        return chunk if is_intact(times, os.pread(descriptor, times.size, times.offset)) else None

    def blocks(self, start: float = -inf, end: float = inf) -> Iterator[Block]:
        """Yield the blocks with rows between two times."""
        for first in range(0, len(self.chunks), BLOCK):
            chunks = self.chunks[first : first + BLOCK]
            if any(chunk.first <= end and chunk.last >= start for chunk in chunks):
                yield first, chunks

    def times(self, block: Block) -> Floats:
        """Return the times of the rows of a block; NaN if they are damaged."""

        def unknown(chunk: Chunk) -> Floats:
            return np.full(chunk.rows, np.nan)

        return self._decode(block, TIMES, decode_times, unknown, axis=0)

    def column(self, block: Block, column: int) -> Integers:
        """Return the values of a column in a block; MISSING if they are damaged."""
        group, row = divmod(column, GROUP)

        def unknown(chunk: Chunk) -> Integers:
            return np.full((min(GROUP, chunk.columns - group * GROUP), chunk.rows), MISSING)

        columns = self._decode(block, FIRST_GROUP + group, partial(decode_group, group), unknown, axis=1)
        values: Integers = columns[row]
        return values

    def rollups(self, block: Block) -> Rollups:
        """Return the roll-ups of the chunks of a block, by chunk, kind and column; NaN if they are damaged."""

        def unknown(chunk: Chunk) -> Rollups:
            return np.full((1, 3, chunk.columns), np.nan, np.float32)

        return self._decode(block, ROLLUP, decode_rollup, unknown, axis=0)

    def _decode(
        self,
        block: Block,
        section: int,
        decode: Callable[[Chunk, bytes], NDArray[T]],
        unknown: Callable[[Chunk], NDArray[T]],
        *,
        axis: int,
    ) -> NDArray[T]:
        """Return a section of all chunks of a block as one array."""

        def decode_chunk(chunk: Chunk) -> NDArray[T]:
            place = chunk.sections[section]
            with suppress(OSError, ValueError):
                data = read_at(self._path, place.offset, place.size)
                if is_intact(place, data):
                    return decode(chunk, data)
            self.damaged += 1
            return unknown(chunk)

        first, chunks = block
        key: Hashable = self._path, first, section
        return self._cache.extend(key, chunks, decode_chunk, axis=axis)
