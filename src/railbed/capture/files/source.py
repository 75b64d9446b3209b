"""The bytes of a capture file, decompressed while they are read.

In memory is a part of it: a buffer that slides over the file, with views of every kind at every byte.
"""

from __future__ import annotations

import os
import sys
import zlib
from io import FileIO
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from railbed.errors import CaptureFileError, ToolMissing, os_reason
from railbed.model.requirements import install_package

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 18
UNSUSPICIOUS_BYTES = 1 << 28
MOST_TIMES = 200
ENDS_EARLY = "the compressed data end early"
"""The problem of a file that was cut."""
MOST_BYTES = 1 << 37
"""What a compressed file may contain: 256 MiB in any case, then 200 times its own size, and never more than 128 GiB."""
FIRST_STEP = 1 << 9
"""Bytes with which a decompressor begins: it copies what follows its part, which may be as short as twenty bytes."""
MOST_EMPTY = 1000
"""Parts without content in a file: appending to a file, or rotating it, leaves few."""


class Source(Protocol):
    """Bytes, from the beginning to the end."""

    size: int
    """Bytes on the disk."""
    problem: str
    """Why the bytes end early, as a clause; empty if they do not."""

    def readinto(self, target: memoryview) -> int:
        """Fill the target as far as possible; 0 is the end."""

    def close(self) -> None:
        """Close the file."""


class PlainSource:
    """A file that is not compressed.

    It is read, not mapped: a recorder may shorten a file at any time, and reading a mapped page that is gone ends the
    process.
    """

    def __init__(self, file: FileIO, path: Path) -> None:
        self.file, self.path = file, path
        self.size = os.fstat(file.fileno()).st_size
        self.problem = ""

    def readinto(self, target: memoryview) -> int:
        """Read from the file."""
        try:
            return self.file.readinto(target) or 0
        except OSError as error:
            self.problem = f"reading it failed: {os_reason(error)}"
            return 0

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class Inflater(Protocol):
    """What the decompressors of gzip and zstd have in common."""

    @property
    def eof(self) -> bool:
        """Return whether its part of the file is complete."""

    @property
    def unused_data(self) -> bytes:
        """Return what follows that part."""

    def inflate(self, data: bytes, most: int) -> bytes:
        """Return at most so many bytes; call again with nothing new while it is not `hungry`."""

    @property
    def hungry(self) -> bool:
        """Return whether it needs more input."""


class GzipInflater:
    """One member of a gzip file."""

    def __init__(self) -> None:
        self.stream = zlib.decompressobj(wbits=31)

    def inflate(self, data: bytes, most: int) -> bytes:
        """Return at most so many bytes."""
        return self.stream.decompress(self.stream.unconsumed_tail + data, most)

    @property
    def hungry(self) -> bool:
        """Return whether it needs more input."""
        return not self.stream.unconsumed_tail

    @property
    def eof(self) -> bool:
        """Return whether the member is complete."""
        return self.stream.eof

    @property
    def unused_data(self) -> bytes:
        """Return what follows the member."""
        return self.stream.unused_data


class ZstdInflater:
    """One frame of a zstd file; a window above the library's limit of 128 MiB is refused by it."""

    def __init__(self) -> None:
        self.stream = zstd_module().ZstdDecompressor()

    def inflate(self, data: bytes, most: int) -> bytes:
        """Return at most so many bytes."""
        content: bytes = self.stream.decompress(data, most)
        return content

    @property
    def hungry(self) -> bool:
        """Return whether it needs more input."""
        return bool(self.stream.needs_input)

    @property
    def eof(self) -> bool:
        """Return whether the frame is complete."""
        return bool(self.stream.eof)

    @property
    def unused_data(self) -> bytes:
        """Return what follows the frame."""
        content: bytes = self.stream.unused_data
        return content


def zstd_module() -> Any:  # noqa: ANN401  (a module without types)
    """Return the module that decompresses zstd: of the standard library since Python 3.14."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise ToolMissing(
            "Python's zstd module is not installed here",
            hint=f"{install_package('backports.zstd')}, or decompress the file first: zstd -d FILE",
        ) from None
    return zstd


class CompressedSource:
    """A file compressed with gzip or zstd: one part after another, as both programs write them."""

    def __init__(self, file: IO[bytes], path: Path, kind: type[GzipInflater | ZstdInflater], magic: bytes) -> None:
        self.file, self.path, self.kind, self.magic = file, path, kind, magic
        self.size = os.fstat(file.fileno()).st_size
        self.inflater: Inflater | None = kind()
        self.failures: tuple[type[Exception], ...] = (zlib.error, OSError)
        if kind is ZstdInflater:
            self.failures = (zstd_module().ZstdError, OSError)
        self.problem = ""
        self.read = self.written = 0
        self._input, self._at, self._step = b"", 0, FIRST_STEP
        self._empty, self._has_content = 0, False

    def readinto(self, target: memoryview) -> int:
        """Decompress into the target."""
        while self.inflater is not None:
            try:
                data = self._read() if self.inflater.hungry else b""
                if self.inflater.hungry and not data:
                    self.problem, self.inflater = ENDS_EARLY, None
                    break
                content = self.inflater.inflate(data, min(len(target), CHUNK * 16))
            except self.failures as error:
                reason = os_reason(error) if isinstance(error, OSError) else "the compressed data are damaged"
                self.problem, self.inflater = reason, None
                break
            self._has_content |= bool(content)
            if self.inflater.eof:
                self._next_part(len(self.inflater.unused_data))
            if content:
                target[: len(content)] = content
                self._count(len(content))
                return len(content)
        return 0

    def _read(self) -> bytes:
        """Return the next bytes of the file: few at the beginning of a part, then more and more."""
        self._fill(1)
        data = self._input[self._at : self._at + self._step]
        self._at += len(data)
        self.read += len(data)
        self._step = min(2 * self._step, CHUNK)
        return data

    def _fill(self, least: int) -> None:
        """Have at least so many bytes at hand, unless the file ends."""
        if len(self._input) - self._at < least:
            self._input, self._at = self._input[self._at :] + self.file.read(CHUNK), 0

    def _next_part(self, unused: int) -> None:
        """Begin with the next part; what does not look like one is ignored, as gzip does."""
        self._empty += not self._has_content
        if self._empty > MOST_EMPTY:
            raise CaptureFileError(
                f"{self.path} has more than {MOST_EMPTY:,} compressed parts without content",
                hint="If you trust it, decompress it first (gzip -d, zstd -d) and give the result to railbed.",
            )
        self._at -= unused
        self.read -= unused
        self._fill(len(self.magic))
        self._step, self._has_content = FIRST_STEP, False
        self.inflater = self.kind() if self._input.startswith(self.magic, self._at) else None

    def _count(self, produced: int) -> None:
        self.written += produced
        if self.written > MOST_BYTES or self.written > max(UNSUSPICIOUS_BYTES, MOST_TIMES * self.read):
            raise CaptureFileError(
                f"{self.path} contains more than {MOST_TIMES} times its own size, as only a decompression bomb does",
                hint="If you trust it, decompress it first (gzip -d, zstd -d) and give the result to railbed.",
            )

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def open_source(path: Path) -> Source:
    """Open a file, and decompress it if it is compressed."""
    try:
        file = path.open("rb", buffering=0)
        try:
            start = file.read(4)
            file.seek(0)
        except OSError:
            file.close()
            raise
    except OSError as error:
        raise CaptureFileError(f"{path} cannot be read: {os_reason(error)}") from None
    try:
        if start.startswith(GZIP):
            return CompressedSource(file, path, GzipInflater, GZIP)
        if start == ZSTD:
            return CompressedSource(file, path, ZstdInflater, ZSTD)
        return PlainSource(file, path)
    except ToolMissing:
        file.close()
        raise


SIZE = 1 << 25
"""Bytes in memory at a time; a record is shorter."""
MARGIN = 1 << 12
"""Bytes behind them that views may touch without harm, whatever a header claims."""
Order = Literal["<", ">"]


class Buffer:
    """Bytes in memory, with views of every kind at every byte. Positions are places in it."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size + MARGIN, np.uint8)
        self.memory = self.bytes.data
        self._words = {order: self.view(f"{order}u4") for order in ("<", ">")}

    def view(self, kind: str) -> NDArray[Any]:
        """Return the values of a type that begin at each byte: they overlap, and are not aligned."""
        dtype = np.dtype(kind)
        return np.ndarray((len(self.bytes) - dtype.itemsize + 1,), dtype, self.bytes.data, 0, (1,))

    def words(self, order: Order) -> NDArray[np.uint32]:
        """Return the 32-bit numbers that begin at each byte."""
        return self._words[order]

    def rows(self, positions: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
        """Return so many bytes from each position, as a table: one copy per row is far cheaper than one per field."""
        return self.view(f"V{width}")[positions].view(np.uint8).reshape(len(positions), width)

    def copy(self, position: int, length: int) -> bytes:
        """Return some of the bytes."""
        return bytes(self.memory[position : position + length])


class FileWindow:
    """The part of a source that is in memory.

    It has two buffers in turns: while one is filled, what was found in the other may still be decoded.
    """

    def __init__(self, source: Source, size: int | None = None) -> None:
        self.source = source
        self.size = size or SIZE
        self.buffer = Buffer(self.size)
        self._other: Buffer | None = None
        self.end = 0
        """Where the bytes end that were read."""
        self.before = 0
        """Bytes of the file that lie before the buffer."""
        self.complete = False
        """Whether the file ends here."""
        self._fill()

    def advance(self, position: int) -> None:
        """Drop what lies before a position, and read on."""
        following = self._other or Buffer(self.size)
        rest = self.end - position
        following.memory[:rest] = self.buffer.memory[position : self.end]
        self._other, self.buffer = self.buffer, following
        self.before += position
        self.end = rest
        self._fill()

    def _fill(self) -> None:
        while self.end < self.size and not self.complete:
            count = self.source.readinto(self.buffer.memory[self.end : self.size])
            self.complete = count == 0
            self.end += count

    def words(self, order: Order) -> NDArray[np.uint32]:
        """Return the 32-bit numbers that begin at each byte of the buffer."""
        return self.buffer.words(order)

    def copy(self, position: int, length: int) -> bytes:
        """Return some of the bytes."""
        return self.buffer.copy(position, length)


def fields(rows: NDArray[np.uint8], offset: int, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return a structure at the same place of every row."""
    structures: NDArray[Any] = rows[:, offset : offset + kind.itemsize].view(kind)[:, 0]
    return structures
