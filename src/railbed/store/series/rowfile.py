"""Reads a file of rows, also while it grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from railbed.store.series.data import Floats, Integers
from railbed.store.series.files import read_at
from railbed.store.series.rows import RowFormat


class RowFile:
    """The undamaged rows of a file, as far as they were written when it was read."""

    def __init__(self, path: Path, row_format: RowFormat) -> None:
        self.times: Floats = np.empty(0)
        self.columns: Integers = np.empty((row_format.columns, 0), np.int64)
        self.damaged = 0
        self._path = path
        self._format = row_format
        self._end = 0

    def refresh(self) -> bool:
        """Read the rows that are new; return whether there are any."""
        try:
            data = read_at(self._path, self._end)
        except OSError:
            return False
        valid = self._format.valid(data)
        if not valid.any():
            return False
        # Damaged rows at the end may be one that is being written.
        count = int(np.flatnonzero(valid)[-1]) + 1
        times, values = self._format.unpack(data[: count * self._format.size])
        intact = valid[:count] & np.isfinite(times)
        if not intact.all():
            times, values = times[intact], values[intact]
            self.damaged += count - len(times)
        self.times = np.concatenate((self.times, times))
        self.columns = np.concatenate((self.columns, values.T), axis=1)
        self._end += count * self._format.size
        return True
