"""Writes the samples of a run."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from railbed.errors import UsageError
from railbed.model.meters import Sample, SeriesKey
from railbed.model.private import for_us_alone
from railbed.store.run import SERIES
from railbed.store.series.chunk import MOST_ROWS, encode
from railbed.store.series.files import (
    AppendedFile,
    Layout,
    RowFormat,
    chunks_path,
    explain_failure,
    hours_path,
    list_files,
    rows_path,
    write_at,
    write_layout,
)
from railbed.store.series.rollups import HourRollup, MinuteRollup

CHUNK_SECONDS = 60.0


class SeriesWriter:
    """Appends samples to the series of a run; `close` compresses what is left."""

    def __init__(self, run_folder: Path, *, chunk_seconds: float = CHUNK_SECONDS) -> None:
        self._folder = run_folder / SERIES
        self._chunk_seconds = chunk_seconds
        self._devices: dict[str, _Device] = {}
        self._complete: deque[tuple[_Table, int, bytes]] = deque()
        with explain_failure(self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)
        if self._folder.is_symlink():
            raise UsageError(f"cannot store the samples in {self._folder}: it is a link", hint="remove it")
        self._count = max(list_files(self._folder).tables, default=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, sample: Sample) -> None:
        """Store a sample as a row; raise UsageError if the disk is full, then the sample is not stored."""
        with explain_failure(self._folder):
            self._append(sample)

    def _append(self, sample: Sample) -> None:
        device = self._devices.get(sample.device)
        if device is None:
            device = self._devices[sample.device] = _Device()
        table = device.current
        if table is None or table.series is not sample.layout:
            table = self._table_of(device, sample)
        span = sample.time // self._chunk_seconds
        if span != table.span or device.current is not table:
            # Also if the list of series changed: the numbers of minutes show which rows were taken first.
            self._end_minute(device.current)
            device.current, table.span = table, span
        self._compact_next()
        device.minutes = table.append(sample, device.minutes + 1)

    def close(self) -> None:
        """Compress all rows and close the files; what cannot be compressed stays as rows."""
        for device in self._devices.values():
            self._end_minute(device.current)
        while self._complete:
            self._compact_next()
        for device in self._devices.values():
            for table in device.tables.values():
                table.close()
        self._devices.clear()

    def _table_of(self, device: _Device, sample: Sample) -> _Table:
        """Return the table of a device with these series; a changed list of series begins a new one."""
        tables, series = device.tables, sample.layout
        if series not in tables:
            if not series:
                raise ValueError(f"{sample.device}: a sample without series")
            layout = write_layout(self._folder, self._count + 1, series)
            self._count += 1
            tables[series] = _Table(self._folder, self._count, layout)
        tables[series].series = series
        return tables[series]

    def _end_minute(self, table: _Table | None) -> None:
        if table and (rows := table.end_minute()):
            self._complete.append((table, table.number, rows))

    def _compact_next(self) -> None:
        """Compress one minute: with every row at most one, so that sixteen nodes do not cause a long pause."""
        if self._complete:
            table, number, rows = self._complete.popleft()
            # If the disk is full, rows stay rows: readers accept both, and the next row reports it.
            with suppress(OSError):
                table.compact(number, rows)


@dataclass
class _Device:
    """The tables of a device: one for each list of series that it had."""

    tables: dict[tuple[SeriesKey, ...], _Table] = field(default_factory=dict)
    current: _Table | None = None
    minutes: int = 0
    """How many were begun, in all tables."""


class _Table:
    """The rows and chunks of a device with the same series."""

    def __init__(self, folder: Path, table: int, layout: Layout) -> None:
        self.series = layout.series
        self.number = 0
        """Of the minute that is being written."""
        self.span = -1.0
        self._folder = folder
        self._table = table
        self._checksum = layout.checksum
        self._format = RowFormat(len(layout.series), layout.checksum)
        self._rollup = MinuteRollup(layout.series)
        self._hour = HourRollup(len(layout.series), layout.checksum)
        self._rows = bytearray()
        self._descriptor = -1
        self._chunks = AppendedFile(chunks_path(folder, table))
        self._hours = AppendedFile(hours_path(folder, table))

    def append(self, sample: Sample, next_number: int) -> int:
        """Write a row, with one call; return the number of its minute, the next one if it begins one."""
        row = self._format.pack(sample.time, sample.values)
        if self._descriptor < 0:
            path = rows_path(self._folder, self._table, next_number)
            self._descriptor = for_us_alone(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            self.number = next_number
        write_at(self._descriptor, row, len(self._rows))
        self._rows += row
        if len(self._rows) >= MOST_ROWS * self._format.size:
            self.span = -1.0
        return self.number

    def end_minute(self) -> bytes:
        """Close the file of the current minute and return its rows."""
        if self._descriptor < 0:
            return b""
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # a file server may only now report a full disk; these rows become a chunk all the same
            os.close(descriptor)
        if not self._rows:
            with suppress(OSError):
                rows_path(self._folder, self._table, self.number).unlink()
        rows, self._rows = bytes(self._rows), bytearray()
        return rows

    def compact(self, number: int, rows: bytes) -> None:
        """Store rows as a chunk, then remove them."""
        times, values = self._format.unpack(rows, len(rows))
        times, values = np.ascontiguousarray(times), np.ascontiguousarray(values)
        rollup = self._rollup.next(number, times, values)
        self._chunks.append(encode(number, times, values, rollup, self._checksum))
        # Only now: a reader that no longer finds the rows must find the chunk.
        rows_path(self._folder, self._table, number).unlink()
        if hour := self._hour.add(number, times.min(), len(times), rollup):
            self._hours.append(hour)

    def close(self) -> None:
        """Close the files."""
        for file in (self._chunks, self._hours):
            file.close()
