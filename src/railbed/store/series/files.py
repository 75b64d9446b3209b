"""The files of `series/`: their names, and the layout of a table."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from railbed.errors import UsageError, os_reason
from railbed.model.meters import SeriesKey
from railbed.model.private import for_us_alone
from railbed.store.run import PRIVATE, write_atomically

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
