"""The roll-ups of complete hours, so that a chart of weeks does not read every minute.

They are rows of their own file: the time of the hour, the numbers of its first and last chunk, the number of rows in
them, and the roll-up of every series. An hour that is missing here is computed from the chunks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from railbed.store.series.chunk import Rollups
from railbed.store.series.data import SECONDS, Floats, Integers
from railbed.store.series.rollups import combine
from railbed.store.series.rowfile import RowFile
from railbed.store.series.rows import RowFormat

HEAD = 3
HOUR = SECONDS["hour"]


def hour_format(columns: int, checksum: int) -> RowFormat:
    """Return the format of the rows for a table with so many series."""
    return RowFormat(HEAD + (3 * columns + 1) // 2, checksum)


class HourRollup:
    """Collects the roll-ups of chunks, and returns a row when an hour is complete."""

    def __init__(self, columns: int, checksum: int) -> None:
        self._format = hour_format(columns, checksum)
        self._hour = -1.0
        self._numbers: list[int] = []
        self._rows: list[int] = []
        self._rollups: list[Rollups] = []

    def add(self, number: int, time: float, rows: int, rollup: Rollups) -> bytes:
        """Add a chunk; return the hour before it, as a row, if it is the first of another one."""
        hour = time // HOUR * HOUR
        row = self._row() if self._numbers and (hour != self._hour or number != self._numbers[-1] + 1) else b""
        if row or not self._numbers:
            self._hour, self._numbers, self._rows, self._rollups = hour, [], [], []
        self._numbers.append(number)
        self._rows.append(rows)
        self._rollups.append(rollup)
        return row

    def _row(self) -> bytes:
        weights = np.array(self._rows, np.float64)
        rollup = combine(np.stack(self._rollups), weights).astype("<f4").reshape(-1)
        words = np.concatenate((rollup, np.zeros(len(rollup) % 2, "<f4"))).view("<i8")
        return self._format.pack(self._hour, [self._numbers[0], self._numbers[-1], sum(self._rows), *words.tolist()])


class HourFile:
    """The hours of a table that are complete."""

    def __init__(self, path: Path, columns: int, checksum: int) -> None:
        self._rows = RowFile(path, hour_format(columns, checksum))
        self._columns = columns
        self.covered: set[int] = set()
        """Numbers of the chunks whose hours are here."""

    def refresh(self) -> None:
        """Read the hours that are new."""
        before = len(self._rows.times)
        if self._rows.refresh():
            for first, last in self._rows.columns[:2, before:].T.tolist():
                self.covered.update(range(max(0, first), min(last, first + 10_000) + 1))

    def column(self, column: int) -> tuple[Floats, Integers, Rollups]:
        """Return the times of the hours, their numbers of rows, and the roll-ups of a column."""
        places = [divmod(kind * self._columns + column, 2) for kind in range(3)]
        parts = [np.ascontiguousarray(self._rows.columns[HEAD + word]).view("<f4")[half::2] for word, half in places]
        return self._rows.times, self._rows.columns[2], np.stack(parts)
