"""Reads the rows and chunks of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.model.series import MISSING, Series
from railbed.store.series.cache import ArrayCache
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
from railbed.store.series.data import Floats, Integers, Samples
from railbed.store.series.files import Layout, chunks_path, read_at, rows_path
from railbed.store.series.rows import RowFormat

BLOCK = 64
"""Chunks that are decoded and cached together."""
MOST_WINDOWS = 16


class _Window(NamedTuple):
    """Where the rows between two times are."""

    blocks: Sequence[tuple[int, Sequence[Chunk]]]
    minutes: Sequence[int]
    times: Floats
    chosen: slice | NDArray[np.int64]
    """Of the rows of these blocks and minutes, one after another."""


class Table:
    """A table of a run, as far as it can be read."""

    def __init__(self, folder: Path, number: int, layout: Layout, cache: ArrayCache) -> None:
        self.series: Sequence[Series] = layout.series
        self.damaged = 0
        """Rows and chunks that could not be read."""
        self._folder = folder
        self._number = number
        self._checksum = layout.checksum
        self._cache = cache
        self._format = RowFormat(len(layout.series), layout.checksum)
        self._minutes: dict[int, _Rows] = {}
        self._chunks: list[Chunk] = []
        self._in_chunks: set[int] = set()
        self._end = 0
        self._windows: dict[tuple[float, float], _Window] = {}

    def refresh(self, row_files: Sequence[int]) -> bool:
        """Read what is new, from the row files that were just listed and from the chunks.

        Rows come first: the writer removes them only after their chunk is complete, so the chunks that are read now
        contain every minute whose rows were not there any more.
        """
        is_new = False
        for number in row_files:
            if number not in self._in_chunks:
                rows = self._minutes.setdefault(number, _Rows(self._format))
                with suppress(OSError):
                    is_new |= rows.refresh(rows_path(self._folder, self._number, number))
        is_new |= self._refresh_chunks()
        for number in self._in_chunks & self._minutes.keys():
            del self._minutes[number]
        if is_new:
            self._windows.clear()
        return is_new

    def _refresh_chunks(self) -> bool:
        """Read the heads of new chunks."""
        path, before = chunks_path(self._folder, self._number), len(self._chunks)
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                size = os.fstat(descriptor).st_size
                while self._end < size and (chunk := self._next_chunk(descriptor, size)):
                    self._end = chunk.end
                    self._chunks.append(chunk)
                    self._in_chunks.add(chunk.number)
            finally:
                os.close(descriptor)
        return len(self._chunks) > before

    def _next_chunk(self, descriptor: int, size: int) -> Chunk | None:
        """Return the next complete chunk; if it is not where it should be, the next that is intact."""
        chunk = self._chunk_at(descriptor, self._end, size)
        if chunk is not None:
            return chunk
        rest = os.pread(descriptor, size - self._end, self._end)
        at = rest.find(MAGIC, 1)
        while at >= 0:
            chunk = self._chunk_at(descriptor, self._end + at, size)
            if chunk is not None:
                self.damaged += 1
                return chunk
            at = rest.find(MAGIC, at + 1)
        return None

    def _chunk_at(self, descriptor: int, offset: int, size: int) -> Chunk | None:
        columns = len(self.series)
        chunk = read_head(os.pread(descriptor, head_size(columns), offset), offset, columns, self._checksum)
        if chunk is None or chunk.end > size or chunk.number in self._in_chunks:
            return None
        times = chunk.sections[TIMES]
        return chunk if is_intact(times, os.pread(descriptor, times.size, times.offset)) else None

    def samples(self, column: int, start: float, end: float) -> Samples:
        """Return the values of a column between two times, in the order of time."""
        window = self._window(start, end)
        group, row = divmod(column, GROUP)
        parts = [self._group(first, chunks, group)[row] for first, chunks in window.blocks]
        parts += [self._minutes[number].columns[column] for number in window.minutes]
        values = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int64)])
        values = values[window.chosen]
        values.flags.writeable = False  # as the times, it may be part of what is cached
        return Samples(window.times, values)

    def _window(self, start: float, end: float) -> _Window:
        """Return where the rows between two times are: the same for every column, so it is looked up once."""
        window = self._windows.get((start, end))
        if window is not None:
            return window
        all_blocks = ((first, self._chunks[first : first + BLOCK]) for first in range(0, len(self._chunks), BLOCK))
        blocks = [block for block in all_blocks if any(item.first <= end and item.last >= start for item in block[1])]
        minutes = sorted(self._minutes)
        parts = [self._times(*block) for block in blocks] + [self._minutes[number].times for number in minutes]
        times, chosen = _select(np.concatenate(parts) if parts else np.empty(0), start, end)
        times.flags.writeable = False
        if len(self._windows) >= MOST_WINDOWS:
            self._windows.clear()
        window = self._windows[start, end] = _Window(blocks, minutes, times, chosen)
        return window

    def rollups(self, column: int) -> tuple[Floats, Integers, Rollups]:
        """Return the times of the first row of each chunk, their numbers of rows, and their roll-ups."""
        values = [
            self._rollup(first, self._chunks[first : first + BLOCK])[:, :, column]
            for first in range(0, len(self._chunks), BLOCK)
        ]
        times = np.array([chunk.first for chunk in self._chunks])
        rows = np.array([chunk.rows for chunk in self._chunks], np.int64)
        return times, rows, np.concatenate(values).T if values else np.empty((3, 0), np.float32)

    @property
    def last_in_chunks(self) -> float:
        """The time of the last row that is in a chunk."""
        return max((chunk.last for chunk in self._chunks), default=-np.inf)

    def bounds(self) -> tuple[float, float]:
        """Return the times of the first and the last row."""
        times = [time for chunk in self._chunks for time in (chunk.first, chunk.last)]
        times += [float(time) for rows in self._minutes.values() if len(rows.times) for time in rows.times[[0, -1]]]
        return min(times, default=np.inf), max(times, default=-np.inf)

    def _times(self, first: int, chunks: Sequence[Chunk]) -> Floats:
        def decode(chunk: Chunk) -> Floats:
            data = self._section(chunk, TIMES)
            return decode_times(chunk, data) if data is not None else np.full(chunk.rows, np.nan)

        return self._cache.extended((self._number, first, "times"), chunks, decode, axis=0)

    def _group(self, first: int, chunks: Sequence[Chunk], group: int) -> Integers:
        def decode(chunk: Chunk) -> Integers:
            data = self._section(chunk, FIRST_GROUP + group)
            with suppress(ValueError):
                if data is not None:
                    return decode_group(chunk, group, data)
            return np.full((min(GROUP, chunk.columns - group * GROUP), chunk.rows), MISSING)

        return self._cache.extended((self._number, first, group), chunks, decode, axis=1)

    def _rollup(self, first: int, chunks: Sequence[Chunk]) -> Rollups:
        def decode(chunk: Chunk) -> Rollups:
            data = self._section(chunk, ROLLUP)
            with suppress(ValueError):
                if data is not None:
                    return decode_rollup(chunk, data)[None]
            return np.full((1, 3, chunk.columns), np.nan, np.float32)

        return self._cache.extended((self._number, first, "rollup"), chunks, decode, axis=0)

    def _section(self, chunk: Chunk, index: int) -> bytes | None:
        """Return the bytes of a section; None if they are damaged."""
        section = chunk.sections[index]
        with suppress(OSError):
            data = read_at(chunks_path(self._folder, self._number), section.offset, section.size)
            if is_intact(section, data):
                return data
        self.damaged += 1
        return None


class _Rows:
    """The rows of a minute that is not compressed yet."""

    def __init__(self, row_format: RowFormat) -> None:
        self._format = row_format
        self._end = 0
        self.times: Floats = np.empty(0)
        self.columns: Integers = np.empty((row_format.columns, 0), np.int64)

    def refresh(self, path: Path) -> bool:
        """Read the rows that are new, without damaged ones."""
        data = read_at(path, self._end, 1 << 40)
        valid = self._format.valid(data)
        if not valid.any():
            return False
        # A damaged row at the end may be one that is being written.
        count = int(np.flatnonzero(valid)[-1]) + 1
        times, values = self._format.unpack(data[: count * self._format.size])
        intact = valid[:count] & np.isfinite(times)
        if not intact.all():
            times, values = times[intact], values[intact]
        self.times = np.concatenate((self.times, times))
        self.columns = np.concatenate((self.columns, values.T), axis=1)
        self._end += count * self._format.size
        return True


def _select(times: Floats, start: float, end: float) -> tuple[Floats, slice | NDArray[np.int64]]:
    """Return the times between two, in order, and where they are."""
    if not len(times) or bool((np.diff(times) >= 0).all()):
        chosen = slice(int(np.searchsorted(times, start)), int(np.searchsorted(times, end, "right")))
        return times[chosen], chosen
    inside = np.flatnonzero((times >= start) & (times <= end))
    order = inside[np.argsort(times[inside], kind="stable")]
    return times[order], order
