"""Reads the samples of a run, also while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np

from railbed.model.meters import SeriesKey
from railbed.store.run import SERIES
from railbed.store.series.chunkfile import ArrayCache
from railbed.store.series.files import list_files, read_layout
from railbed.store.series.rates import SECONDS, Floats, Rollup, Samples, Span, meter_of
from railbed.store.series.rollups import merge, of_samples
from railbed.store.series.table import SampleOrder, SeriesTable, join_tables, order_of


class SeriesReader:
    """The series of a run; a run without any has none.

    Damaged rows and chunks are left out, or their values MISSING: never wrong. Raises UsageError only if the folder
    cannot be read.
    """

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder / SERIES
        self._cache = ArrayCache()
        self._tables: dict[int, SeriesTable] = {}
        self._unreadable: set[int] = set()
        self._places: dict[SeriesKey, list[tuple[SeriesTable, int]]] = {}
        self._orders: dict[tuple[int, ...], SampleOrder] = {}
        self.refresh()

    @property
    def damaged(self) -> int:
        """How many rows, chunks and layouts could not be read."""
        return len(self._unreadable) + sum(table.damaged for table in self._tables.values())

    def refresh(self) -> bool:
        """Read what was written since the last time; return whether there is anything new."""
        listing, is_new = list_files(self._folder), False
        for number in listing.tables:
            if number not in self._tables and number not in self._unreadable:
                is_new |= self._add(number)
        for number, table in self._tables.items():
            is_new |= table.refresh(listing.rows.get(number, ()))
        if is_new:
            self._orders.clear()
        return is_new

    def _add(self, number: int) -> bool:
        layout = read_layout(self._folder, number)
        if layout is None:
            self._unreadable.add(number)
            return False
        table = self._tables[number] = SeriesTable(self._folder, number, layout, self._cache)
        for column, series in enumerate(layout.series):
            self._places.setdefault(series, []).append((table, column))
        return True

    def series(self) -> Sequence[SeriesKey]:
        """Return every series, in the order in which they began."""
        return list(self._places)

    def bounds(self) -> tuple[float, float]:
        """Return the times of the first and the last sample; infinite if there is none."""
        bounds = [table.bounds() for table in self._tables.values()]
        return min((first for first, _ in bounds), default=inf), max((last for _, last in bounds), default=-inf)

    def samples(self, series: SeriesKey, start: float = -inf, end: float = inf) -> Samples:
        """Return the samples of a series from `start` to `end`; none if it does not exist.

        After the clock was set back, samples outside that were taken in between are returned as well.
        """
        places = self._places.get(series, [])
        match places:
            case []:
                return Samples(np.empty(0), np.empty(0, np.int64))
            case [(table, column)]:
                return table.samples(column, start, end)
        return join_tables(places, self._order([table for table, _ in places]), start, end)

    def _order(self, tables: Sequence[SeriesTable]) -> SampleOrder:
        key = tuple(table.number for table in tables)
        if key not in self._orders:
            self._orders[key] = order_of(tables)
        return self._orders[key]

    def rollup(self, series: SeriesKey, span: Span) -> Rollup:
        """Return lowest, highest and mean value of each minute, hour or day that has samples."""
        places = self._places.get(series, ())
        parts = [self._parts(table, column, series, by_hour=span != "minute") for table, column in places]
        times, low, high, mean, weights = (
            (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            if parts
            else (np.empty(0) for _ in range(5))
        )
        order = np.argsort(times, kind="stable")
        minutes = Rollup(times[order], low[order], high[order], mean[order])
        return merge(minutes, weights[order], SECONDS[span])[0]

    def _parts(self, table: SeriesTable, column: int, series: SeriesKey, *, by_hour: bool) -> tuple[Floats, ...]:
        """Return times, low, high, mean and weights of the hours or minutes of a table, including the current one."""
        times, rows, rollups = table.rollups(column, by_hour=by_hour)
        last = table.last_in_chunks
        # From the last row in a chunk on, which the first rate after it needs.
        tail = table.samples(column, last, inf)
        now, weights = of_samples(meter_of(series.meter), tail, last, SECONDS["minute"])
        columns = (times, *rollups.astype(np.float64), rows.astype(np.float64))
        return tuple(np.concatenate(pair) for pair in zip(columns, (*now, weights), strict=True))
