"""The files of `series/`: their names, the layout of a table, and its rows, also while their file grows.

A row has the time, the values and a checksum, each 64 bits wide.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railbed.errors import UsageError, os_reason
from railbed.model.meters import SeriesKey
from railbed.model.private import for_us_alone
from railbed.store.run import PRIVATE, write_atomically
from railbed.store.series.rates import Floats, Integers

FOR_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
MOST_SERIES = 1 << 16
MOST_LAYOUT_BYTES = 1 << 24
_LAYOUT = re.compile(r"(\d{4,9})\.layout")
_ROWS = re.compile(r"(\d{4,9})-(\d{6,9})\.rows")


class Layout(NamedTuple):
    """The series of a table, in the order of its columns."""

    series: tuple[SeriesKey, ...]
    checksum: int
    """Where the checksums of its rows and chunks start, so that they are invalid with another layout."""


class Listing(NamedTuple):
    """The files of a folder at one time."""

    tables: Sequence[int]
    rows: dict[int, list[int]]
    """Numbers of the row files of each table."""


def layout_path(folder: Path, table: int) -> Path:
    """Return the file with the series of a table."""
    return folder / f"{table:04d}.layout"


def rows_path(folder: Path, table: int, number: int) -> Path:
    """Return the file with the rows of a minute."""
    return folder / f"{table:04d}-{number:06d}.rows"


def chunks_path(folder: Path, table: int) -> Path:
    """Return the file with the compressed minutes of a table."""
    return folder / f"{table:04d}.chunks"


def hours_path(folder: Path, table: int) -> Path:
    """Return the file with the roll-ups of complete hours."""
    return folder / f"{table:04d}.hours"


def list_files(folder: Path) -> Listing:
    """Return what a folder contains; nothing if it does not exist."""
    tables: list[int] = []
    rows: dict[int, list[int]] = {}
    try:
        names = os.listdir(folder) if not folder.is_symlink() else []  # noqa: PTH208  (a tenth of the time of iterdir)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {os_reason(error)}") from error
    for name in names:
        if match := _LAYOUT.fullmatch(name):
            tables.append(int(match[1]))
        elif match := _ROWS.fullmatch(name):
            rows.setdefault(int(match[1]), []).append(int(match[2]))
    return Listing(sorted(tables), {table: sorted(numbers) for table, numbers in rows.items()})


def write_layout(folder: Path, table: int, series: tuple[SeriesKey, ...]) -> Layout:
    """Write the series of a new table."""
    text = json.dumps([list(item) for item in series], ensure_ascii=False, separators=(",", ":")).encode()
    checksum = zlib.crc32(text)
    write_atomically(layout_path(folder, table), b"%s\n%08x\n" % (text, checksum), mode=PRIVATE)
    return Layout(series, checksum)


def read_layout(folder: Path, table: int) -> Layout | None:
    """Return the series of a table; None if the file is damaged."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        data = read_at(layout_path(folder, table), 0, MOST_LAYOUT_BYTES)
        text, checksum, rest = data.rsplit(b"\n", 2)
        series = tuple(SeriesKey(*map(str, item)) for item in json.loads(text))
        json.dumps(series, ensure_ascii=False).encode()  # refuses half a character
        if not rest and int(checksum, 16) == zlib.crc32(text) and 0 < len(series) <= MOST_SERIES:
            return Layout(series, zlib.crc32(text))
    return None


def read_at(path: Path, offset: int, size: int | None = None) -> bytes:
    """Return bytes of a file, without following a link: as many as `size`, up to its end."""
    descriptor = os.open(path, FOR_READING)
    try:
        rest = max(0, os.fstat(descriptor).st_size - offset)
        return os.pread(descriptor, rest if size is None else min(size, rest), offset)
    finally:
        os.close(descriptor)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write bytes at a place of a file, usually with one call; after a failure the place can be written again."""
    while data:
        # A call writes only a part if the disk fills up: then the next one raises.
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


class AppendedFile:
    """A file that grows by complete pieces; it exists from the first one on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._size = 0

    def append(self, data: bytes) -> None:
        """Add a piece; if the disk is full, the file stays as it was."""
        if self._descriptor < 0:
            self._descriptor = for_us_alone(str(self._path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_at(self._descriptor, data, self._size)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file; nothing can be added after that."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)


@contextmanager
def explain_failure(folder: Path) -> Iterator[None]:
    """Turn an error of the file system into a sentence for the user."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot store the samples in {folder}: {os_reason(error)}",
            hint="free some disk space, run in a folder that you can write to, or set RAILBED_RUNS",
        ) from error


Buffer = bytes | bytearray
_UNSIGNED = (1 << 64) - 1


class RowFormat:
    """Packs and checks the rows of a table."""

    def __init__(self, columns: int, checksum: int) -> None:
        self.columns = columns
        self.size = 8 * (columns + 2)
        self._checksum = checksum
        self._struct = struct.Struct(f"<d{columns}q")

    def pack(self, time: float, values: Sequence[int]) -> bytes:
        """Return a row; counters beyond 63 bits are stored as the same bits."""
        try:
            body = self._struct.pack(time, *values)
        except struct.error:
            if len(values) != self.columns:
                raise ValueError(f"{len(values)} values for {self.columns} series") from None
            body = self._struct.pack(time, *map(_to_signed, values))
        return body + zlib.crc32(body, self._checksum).to_bytes(8, "little")

    def valid(self, data: Buffer, size: int) -> NDArray[np.bool_]:
        """Return for each complete row whether it is undamaged."""
        count, body, checksum = size // self.size, self.size - 8, self._checksum
        with memoryview(data) as view:
            computed = [
                zlib.crc32(view[start : start + body], checksum) for start in range(0, count * self.size, self.size)
            ]
        return np.asarray(self._words(data, count)[:, -1].view("<u8") == np.array(computed, np.uint64), np.bool_)

    def unpack(self, data: Buffer, size: int) -> tuple[Floats, Integers]:
        """Return times, and values as a matrix of rows and columns; both are views of the data."""
        words = self._words(data, size // self.size)
        return words[:, 0].view("<f8"), words[:, 1:-1]

    def _words(self, data: Buffer, count: int) -> Integers:
        width = self.columns + 2
        return np.frombuffer(data, "<i8", count * width).reshape(count, width)


def _to_signed(value: int) -> int:
    value &= _UNSIGNED
    return value - (1 << 64) if value >> 63 else value


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
