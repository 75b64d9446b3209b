"""Reads a file of rows, also while it grows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from railbed.store.series.data import Floats, Integers
from railbed.store.series.files import FOR_READING
from railbed.store.series.rows import RowFormat

PART = 256
"""Rows that are read at once."""


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
            descriptor = os.open(self._path, FOR_READING)
        except OSError:
            return False
        try:
            count = (os.fstat(descriptor).st_size - self._end) // self._format.size
            return count > 0 and self._read(descriptor, count)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, count: int) -> bool:
        times, columns, valid = (
            np.empty(count),
            np.empty((len(self.columns), count), np.int64),
            np.zeros(count, np.bool_),
        )
        # In parts that stay in the processor's cache while they are checked and turned into columns.
        buffer = bytearray(min(count, PART) * self._format.size)
        for start in range(0, count, PART):
            size = os.preadv(descriptor, [buffer], self._end + start * self._format.size)
            part_times, values = self._format.unpack(buffer, size)
            part = slice(start, min(start + len(part_times), count))
            length = part.stop - part.start
            times[part], columns[:, part] = part_times[:length], values[:length].T
            valid[part] = self._format.valid(buffer, size)[:length] & np.isfinite(times[part])
        if not valid.any():
            return False
        # Damaged rows at the end may be one that is being written.
        count = int(np.flatnonzero(valid)[-1]) + 1
        self._end += count * self._format.size
        if not valid.all():
            self.damaged += count - int(valid.sum())
            times, columns = times[valid], columns[:, valid]
        self.times = np.concatenate((self.times, times)) if len(self.times) else times
        self.columns = np.concatenate((self.columns, columns), axis=1) if self.columns.size else columns
        return True
