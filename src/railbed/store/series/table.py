"""Reads the rows and chunks of a table as one, and the tables that have a series as one sequence.

A series is in several tables if the list of a device's series changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.model.meters import SeriesKey
from railbed.store.series.chunk import Rollups
from railbed.store.series.chunkfile import ArrayCache, Block, ChunkFile
from railbed.store.series.files import Layout, RowFile, RowFormat, chunks_path, hours_path, rows_path
from railbed.store.series.rates import Floats, Integers, Samples, by_time
from railbed.store.series.rollups import HourFile

MOST_WINDOWS = 16


class _Window(NamedTuple):
    """Where the rows between two times are."""

    blocks: Sequence[Block]
    minutes: Sequence[int]
    times: Floats
    chosen: slice | NDArray[np.int64]
    """Of the rows of these blocks and minutes, one after another."""


class ChunkTimes(NamedTuple):
    """A minute of a device: its number, which grows in the order of sampling, its earliest and its latest time."""

    number: int
    first: float
    last: float


class _Rolled(NamedTuple):
    """The chunks whose roll-ups are read, by block, with their times and numbers of rows."""

    blocks: Sequence[tuple[Block, NDArray[np.int64]]]
    times: Floats
    rows: Integers


class SeriesTable:
    """A table of a run, as far as it can be read."""

    def __init__(self, folder: Path, number: int, layout: Layout, cache: ArrayCache) -> None:
        self.series: Sequence[SeriesKey] = layout.series
        columns, checksum = len(layout.series), layout.checksum
        self._folder = folder
        self.number = number
        self._format = RowFormat(columns, checksum)
        self._minutes: dict[int, RowFile] = {}
        self._chunks = ChunkFile(chunks_path(folder, number), columns, checksum, cache)
        self._hours = HourFile(hours_path(folder, number), columns, checksum)
        self._windows: dict[tuple[float, float], _Window] = {}
        self._rolled: dict[bool, _Rolled] = {}

    @property
    def damaged(self) -> int:
        """How many rows and chunks could not be read."""
        return self._chunks.damaged + sum(rows.damaged for rows in self._minutes.values())

    def refresh(self, row_files: Sequence[int]) -> bool:
        """Read what is new, from the row files that were just listed and from the chunks.

        Rows come first: the writer removes them only after their chunk is complete, so the chunks that are read now
        contain every minute whose rows were not there any more.
        """
        is_new = False
        for number in row_files:
            if number not in self._chunks.numbers:
                rows = self._minutes.get(number) or RowFile(rows_path(self._folder, self.number, number), self._format)
                self._minutes[number] = rows
                is_new |= rows.refresh()
        if self._chunks.refresh():
            is_new = True
            self._hours.refresh()
            self._rolled.clear()
        for number in self._chunks.numbers & self._minutes.keys():
            del self._minutes[number]
        if is_new:
            self._windows.clear()
        return is_new

    def bounds(self) -> tuple[float, float]:
        """Return the earliest and the latest time."""
        times = [rows.times for rows in self._minutes.values() if len(rows.times)]
        first = min((float(part.min()) for part in times), default=np.inf)
        last = max((float(part.max()) for part in times), default=-np.inf)
        return min(first, self._chunks.first), max(last, self._chunks.last)

    def samples(self, column: int, start: float, end: float) -> Samples:
        """Return the values of a column between two times, in the order in which they were written."""
        window = self._window(start, end)
        parts = [self._chunks.column(block, column) for block in window.blocks]
        parts += [self._minutes[number].columns[column] for number in window.minutes]
        values = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int64)])
        values = values[window.chosen]
        values.flags.writeable = False  # it may be part of what is cached, as the times are
        return Samples(window.times, values)

    def _window(self, start: float, end: float) -> _Window:
        """Return where the rows between two times are: the same for every column, so it is looked up once."""
        window = self._windows.get((start, end))
        if window is not None:
            return window
        blocks, minutes = list(self._chunks.blocks(start, end)), sorted(self._minutes)
        parts = [self._chunks.times(block) for block in blocks] + [self._minutes[number].times for number in minutes]

        times, chosen = _select(
            np.concatenate([*parts, np.empty(0)]), start, end, lambda: self._numbers(blocks, minutes)
        )
        times.flags.writeable = False
        if len(self._windows) >= MOST_WINDOWS:
            self._windows.clear()
        window = self._windows[start, end] = _Window(blocks, minutes, times, chosen)
        return window

    def _numbers(self, blocks: Sequence[Block], minutes: Sequence[int]) -> NDArray[np.int64]:
        """Return the number of the minute of each row of these blocks and minutes."""
        counts = [(chunk.number, chunk.rows) for _, chunks in blocks for chunk in chunks]
        counts += [(number, len(self._minutes[number].times)) for number in minutes]
        return np.repeat(*np.array(counts, np.int64).reshape(-1, 2).T)

    def numbers(self, start: float, end: float) -> NDArray[np.int64]:
        """Return, for each sample between two times, the number of its minute."""
        window = self._window(start, end)
        return self._numbers(window.blocks, window.minutes)[window.chosen]

    def spans(self) -> list[ChunkTimes]:
        """Return the minutes of the table."""
        spans = [ChunkTimes(chunk.number, chunk.first, chunk.last) for chunk in self._chunks.chunks]
        rows = [(number, rows.times) for number, rows in self._minutes.items() if len(rows.times)]
        return spans + [ChunkTimes(number, float(times.min()), float(times.max())) for number, times in rows]

    def rollups(self, column: int, *, by_hour: bool) -> tuple[Floats, Integers, Rollups]:
        """Return the roll-ups of a column by chunk or, as far as possible, by hour, with times and numbers of rows."""
        rolled = self._rolled.get(by_hour)
        if rolled is None:
            rolled = self._rolled[by_hour] = self._chunks_to_roll(without=self._hours.covered if by_hour else set())
        parts = [self._chunks.rollups(block)[chosen, :, column].T for block, chosen in rolled.blocks]
        times, rows = rolled.times, rolled.rows
        if by_hour:
            hours, hour_rows, rollups = self._hours.column(column)
            times, rows = np.concatenate((hours, times)), np.concatenate((hour_rows, rows))
            parts.insert(0, rollups)
        return times, rows, np.concatenate([*parts, np.empty((3, 0), np.float32)], axis=1)

    def _chunks_to_roll(self, *, without: set[int]) -> _Rolled:
        blocks = [
            (block, chosen)
            for block in self._chunks.blocks()
            if len(chosen := np.flatnonzero([chunk.number not in without for chunk in block[1]]))
        ]
        chunks = [block[1][index] for block, chosen in blocks for index in chosen.tolist()]
        times, rows = [chunk.first for chunk in chunks], [chunk.rows for chunk in chunks]
        return _Rolled(blocks, np.array(times, np.float64), np.array(rows, np.int64))

    @property
    def last_in_chunks(self) -> float:
        """The latest time that is in a chunk."""
        return self._chunks.last


def _select(
    times: Floats, start: float, end: float, written: Callable[[], NDArray[np.int64]]
) -> tuple[Floats, slice | NDArray[np.int64]]:
    """Return the times between two, in the order in which they were written, and where they are.

    `written` returns the number of each time's minute. It is needed if minutes could not be compressed, or a clock was
    set back: then also times outside are returned if they were written in between, so that no rate skips them.
    """
    if not len(times) or bool((np.diff(times) >= 0).all()):
        chosen = slice(int(np.searchsorted(times, start)), int(np.searchsorted(times, end, "right")))
        return times[chosen], chosen
    order = np.argsort(written(), kind="stable")
    inside = np.flatnonzero((times[order] >= start) & (times[order] <= end))
    order = order[inside[0] : inside[-1] + 1] if len(inside) else order[:0]
    return times[order], order


class SampleOrder(Enum):
    """What shows the order in which the samples of several tables were taken."""

    TIMES = auto()
    """Only their times: each table counted its own minutes, as those of another writer do."""
    NUMBERS = auto()
    """The numbers of their minutes, whose times grow."""
    NUMBERS_ALONE = auto()
    """The numbers of their minutes; a clock was set back, so that times overlap."""


def order_of(tables: Sequence[SeriesTable]) -> SampleOrder:
    """Return what shows the order of samples in these tables of a device."""
    spans = sorted(span for table in tables for span in table.spans())
    if any(span.number == following.number for span, following in pairwise(spans)):
        return SampleOrder.TIMES
    is_set_back = any(span.last > following.first for span, following in pairwise(spans))
    return SampleOrder.NUMBERS_ALONE if is_set_back else SampleOrder.NUMBERS


def join_tables(places: Sequence[tuple[SeriesTable, int]], order: SampleOrder, start: float, end: float) -> Samples:
    """Return the samples of columns of several tables between two times, in the order in which they were taken.

    After a clock was set back, samples outside that were taken in between are returned as well.
    """
    window = (-inf, inf) if order is SampleOrder.NUMBERS_ALONE else (start, end)
    parts = [table.samples(column, *window) for table, column in places]
    times, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if order is SampleOrder.TIMES:
        return Samples(*by_time(times, values))
    place = np.argsort(np.concatenate([table.numbers(*window) for table, _ in places]), kind="stable")
    inside = np.flatnonzero((times[place] >= start) & (times[place] <= end))
    if order is SampleOrder.NUMBERS_ALONE:
        place = place[inside[0] : inside[-1] + 1] if len(inside) else place[:0]
    return Samples(times[place], values[place])
