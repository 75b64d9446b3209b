"""The measurements of a run over its steps, written as logs for TensorBoard while the run is in progress.

A tag is the name of a measurement; measurements of each rank have a tag per rank. Every generation of ranks
starts a new file with a mark that makes TensorBoard discard later steps, so that steps lost in a restart do not stay in
the curves.

The files are written without TensorBoard's library, which is 80 MB with what it needs: they consist of three kinds of
protocol buffers messages (tensorflow/core/util/event.proto), each framed with its length and checksums (tfrecord).
"""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import BinaryIO

from railbed.errors import os_reason
from railbed.model.events import GenerationStarted
from railbed.model.meters import RECORDED, is_of_state
from railbed.model.private import for_us_alone
from railbed.model.record import Measurement, Record

FOLDER = "tensorboard"
FLUSH_SECONDS = 1.0
VARINT, DOUBLE, BYTES, SINGLE = 0, 1, 2, 5
"""How protocol buffers store a field."""
WALL_TIME, STEP, FILE_VERSION, SUMMARY, SESSION_LOG = 1, 2, 3, 5, 7
"""Fields of Event."""
VALUE, TAG, SIMPLE_VALUE = 1, 1, 2
"""Fields of Summary, and of a value in it."""
STATUS, START = 1, 1
"""A field of SessionLog, and its value for a start."""


class TensorBoardLogs:
    """Writes the measurements of steps, and ignores all other records.

    If a log cannot be written, logging stops but the run continues: `problem` is a sentence with the reason.
    """

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._file: BinaryIO | None = None
        self._generation = 0
        self._flushed = 0.0
        self._point = 0, 0.0
        self._values: list[tuple[str, float]] = []
        """Measurements of one step and time, `_point`: written together, in one frame."""
        self.problem = ""

    def take(self, record: Record) -> None:
        """Write one record."""
        if self.problem:
            return
        try:
            match record:
                case GenerationStarted():
                    self._end_file()
                    self._generation += 1
                case Measurement(labels={"step": int(step)}):
                    self._write(record, step)
        except OSError as error:
            self.problem = f"logging for TensorBoard stopped: {os_reason(error)}"

    def close(self) -> None:
        """Write buffered data."""
        try:
            self._end_file()
        except OSError as error:
            self.problem = self.problem or f"the logs for TensorBoard are incomplete: {os_reason(error)}"

    def _write(self, record: Measurement, step: int) -> None:
        if self._file is None:
            self._file = self._begin_file(step + 1 if is_of_state(record.name) else step)
        if self._point != (step, record.time):
            self._write_point()
            self._point = step, record.time
        self._values.append((_tag(record), record.value))
        now = time.monotonic()
        if now - self._flushed > FLUSH_SECONDS:
            self._write_point()
            self._file.flush()
            self._flushed = now

    def _write_point(self) -> None:
        values, self._values = self._values, []
        if self._file is not None and values:
            self._file.write(_scalars(values, *self._point))

    def _begin_file(self, step: int) -> BinaryIO:
        """Start the file of a generation. TensorBoard reads files in the order of their names."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"events.out.tfevents.{time.time():010.0f}.{self._generation:05d}.{socket.gethostname()}"
        file = open(self._folder / name, "wb", opener=for_us_alone)  # noqa: SIM115  (until the next one)
        file.write(_begin(step))
        return file

    def _end_file(self) -> None:
        try:
            self._write_point()
        finally:
            file, self._file = self._file, None
            if file is not None:
                file.close()


def _tag(record: Measurement) -> str:
    rank = record.labels.get("rank")
    meter = RECORDED.get(record.name)
    return record.name if rank is None or (meter and meter.once) else f"{record.name}/rank{rank}"


def _begin(step: int) -> bytes:
    """Return the start of a file, with the mark that discards earlier values from this step on."""
    now = time.time()
    version = _text(FILE_VERSION, b"brain.Event:2")
    start = _text(SESSION_LOG, _number(STATUS, START))
    return _event(now, 0, version) + _event(now, step, start)


def _scalars(values: Iterable[tuple[str, float]], step: int, at: float) -> bytes:
    """Return one point of each of some curves, by their tags."""
    points = (_text(VALUE, _text(TAG, tag.encode()) + _single(SIMPLE_VALUE, value)) for tag, value in values)
    return _event(at, step, _text(SUMMARY, b"".join(points)))


def _event(at: float, step: int, what: bytes) -> bytes:
    """Return a message of type Event in the frame of a record file: length, its checksum, content, its checksum."""
    content = _key(WALL_TIME, DOUBLE) + struct.pack("<d", at) + (_number(STEP, step) if step else b"") + what
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _number(field: int, value: int) -> bytes:
    return _key(field, VARINT) + _varint(value)


def _text(field: int, content: bytes) -> bytes:
    return _key(field, BYTES) + _varint(len(content)) + content


def _single(field: int, value: float) -> bytes:
    """Return a number in 32 bits; one that is too large becomes infinite, as in the library of these messages."""
    try:
        number = struct.pack("<f", value)
    except OverflowError:
        number = struct.pack("<f", math.copysign(math.inf, value))
    return _key(field, SINGLE) + number


def _varint(value: int) -> bytes:
    """Return a whole number in groups of seven bits, the lowest first; negative ones have 64 bits."""
    value &= (1 << 64) - 1
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _checksum(data: bytes) -> bytes:
    """Return the CRC-32C of data, masked, since data may contain checksums."""
    crc, table = 0xFFFFFFFF, _table()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    """Return the CRC-32C (Castagnoli) of every byte."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
