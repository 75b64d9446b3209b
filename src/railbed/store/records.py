"""Records as lines, and the one reader of those of a run, at its end or while it is written.

A run of days has millions of records, most of them measurements, and parsing takes far longer than looking at bytes. So
readers name the records that they want, and only lines that may have such a record are parsed.
"""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

from pydantic import Field, TypeAdapter
from pydantic_core import from_json, to_json

from railbed.errors import UsageError, os_reason
from railbed.model import events
from railbed.model.events import CountersRead, DeviceRead, LogLine, Progress
from railbed.model.meters import METERS, SeriesKey
from railbed.model.record import Change, Event, Finding, Measurement, Record
from railbed.model.regular import open_regular
from railbed.store.run import RECORDS, is_being_written

POLL_SECONDS = 0.2
LINES_AT_ONCE = 500
_BLOCK = 1 << 20
_NAME = b'{"name":"'
_MEASUREMENT = (b'"kind":"measurement"}\n', b'"kind":"measurement"}')


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventLine:
    """An event as its line has it."""

    kind: Literal["event"]
    name: str
    subject: str = ""
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    time: float = 0.0


@cache
def _line() -> TypeAdapter[Finding | Measurement | Change | _EventLine]:
    """Return what reads a line; most runs only write them."""
    return TypeAdapter(Annotated[Finding | Measurement | Change | _EventLine, Field(discriminator="kind")])


def read_record(line: bytes) -> Record:
    """Return the record that a line holds; raise ValueError if it is damaged or not listed in this version."""
    record = _line().validate_json(line)
    if not isinstance(record, _EventLine):
        return record
    return events.parse(record.name, subject=record.subject, message=record.message, data=record.data, time=record.time)


def to_line(record: Record) -> bytes:
    """Return a record as one line of JSON, without the line break."""
    if not isinstance(record, Event):
        return to_json(record)
    head = {"name": record.name, "subject": record.subject, "message": record.message}
    return to_json({**head, "data": record.data, "time": record.time, "kind": "event"})


def measurement_name(line: bytes) -> bytes:
    """Return the name of the measurement in a line; empty if it has another record, or another form than `to_line`."""
    if line.startswith(_NAME) and line.endswith(_MEASUREMENT):
        return line[len(_NAME) : line.find(b'"', len(_NAME))]
    return b""


class RecordReader:
    """Reads lines, and parses those that may have a record of these kinds, without some; all kinds if there are none.

    Of measurements, `names` and `rank` select those with such a name and label. A line in another form than that of
    `to_line` is parsed to see what it has. Damaged lines are counted as far as they are parsed.
    """

    def __init__(
        self,
        kinds: Collection[type[Record]] = (),
        *,
        without: Collection[type[Event]] = (),
        names: Collection[str] = (),
        rank: int | None = None,
    ) -> None:
        self.unreadable = 0
        """Lines that are damaged, or unknown to this version."""
        self._selects = bool(kinds or without or names or rank is not None)
        self._kinds = tuple(kinds) or (Finding, Measurement, Change, Event)
        self._without = tuple(without)
        self._names, self._rank = frozenset(names), rank
        self._measured = {name.encode() for name in names} if Measurement in self._kinds else None
        self._rank_marks = () if rank is None else (b'"rank":%d,' % rank, b'"rank":%d}' % rank)
        listed = {kind.name.encode() for kind in self._kinds if issubclass(kind, Event) and kind is not Event}
        self._events = None if Event in self._kinds else listed
        self._ignored = {kind.name.encode() for kind in without}

    def read(self, line: bytes) -> Record | None:
        """Return the record of a line; None if it is unreadable, or not of those that are wanted."""
        if self._selects and not self._may_match(line):
            return None
        try:
            record = read_record(line)
        except ValueError:
            self.unreadable += 1
            return None
        return record if not self._selects or self._matches(record) else None

    def _may_match(self, line: bytes) -> bool:
        if not line.startswith(_NAME):
            return True
        name = line[len(_NAME) : line.find(b'"', len(_NAME))]
        if not line.endswith(_MEASUREMENT):
            return name not in self._ignored if self._events is None else name in self._events
        if self._measured is None or (self._measured and name not in self._measured):
            return False
        return not self._rank_marks or any(mark in line for mark in self._rank_marks)

    def _matches(self, record: Record) -> bool:
        if not isinstance(record, self._kinds) or isinstance(record, self._without):
            return False
        if not isinstance(record, Measurement):
            return True
        is_named = not self._names or record.name in self._names
        return is_named and (self._rank is None or record.labels.get("rank") == self._rank)


class NewLines:
    """The complete lines of a file that may be growing, each once; what is incomplete is kept until its end arrives."""

    def __init__(self) -> None:
        self._offset = 0
        self._part = b""

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the lines that were completed since the last time, without their line breaks."""
        while data := os.pread(file.fileno(), _BLOCK, self._offset):
            self._offset += len(data)
            *lines, self._part = (self._part + data).split(b"\n")
            yield from lines


def record_lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of a run's records, with their line breaks; an incomplete last line is ignored."""
    with open_regular(folder / RECORDS) as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def read_records(
    folder: Path, *kinds: type[Record], names: Collection[str] = (), rank: int | None = None
) -> Iterator[Record]:
    """Yield the records of a run, or those that `RecordReader` selects; those that are unreadable are left out."""
    reader = RecordReader(kinds, names=names, rank=rank)
    for line in record_lines(folder):
        if (record := reader.read(line)) is not None:
            yield record


async def follow(
    folder: Path,
    *kinds: type[Record],
    names: Collection[str] = (),
    rank: int | None = None,
    in_progress: Callable[[Path], bool] | None = None,
) -> AsyncGenerator[Record, None]:
    """Yield the same records of a run in progress as they are written, until the run has ended, normally or not.

    `in_progress` decides whether more may follow; by default, whether the process that writes the run is alive.
    """
    reader, lines, more = RecordReader(kinds, names=names, rank=rank), NewLines(), True
    try:
        file = open_regular(folder / RECORDS)
    except FileNotFoundError:
        return
    with file:
        while more:
            # Checked before reading, so that nothing written just before the end is missed.
            more = (in_progress or is_being_written)(folder)
            for count, line in enumerate(lines.read(file), 1):
                if (record := reader.read(line)) is not None:
                    yield record
                if count % LINES_AT_ONCE == 0:
                    await asyncio.sleep(0)  # a long history must not delay Ctrl-C
            if more:
                await asyncio.sleep(POLL_SECONDS)


MEASURED = frozenset(name.encode() for name, meter in METERS.items() if meter.of == "rank")
IGNORED = (LogLine, Progress, DeviceRead, CountersRead)


class Steps(NamedTuple):
    """What a rank measured, as it happened: a repeated step occurs twice."""

    times: array[float]
    values: array[float]
    steps: array[int]


class RecordFollower:
    """Reads a file of records from where it stopped the last time."""

    def __init__(self, path: Path) -> None:
        self.events: list[Event] = []
        self.findings: list[Finding] = []
        self.measured: dict[SeriesKey, Steps] = {}
        self.last_time = 0.0
        self._path = path
        self._lines = NewLines()
        self._reader = RecordReader((Finding, Change, Event), without=IGNORED)

    @property
    def unreadable(self) -> int:
        """Lines that are damaged, or unknown to this version."""
        return self._reader.unreadable

    def refresh(self) -> bool:
        """Read complete new lines; return whether there were any."""
        try:
            file = open_regular(self._path)
        except FileNotFoundError:
            return False  # a run that died before its first record, or without notes
        except OSError as error:
            raise UsageError(f"{self._path} cannot be read: {os_reason(error)}") from error
        is_new = False
        with file:
            for line in self._lines.read(file):
                is_new = True
                self._take(line)
        return is_new

    def _take(self, line: bytes) -> None:
        name = measurement_name(line)
        if name in MEASURED:
            self._measure(line)
        elif not name and (record := self._reader.read(line)) is not None:
            if isinstance(record, Finding):
                self.findings.append(record)
            elif isinstance(record, Event) and isfinite(record.time):
                self.events.append(record)
            self._ends(record.time)

    def _measure(self, line: bytes) -> None:
        # Without a record, which would take twice as long: a run may have millions of these lines.
        try:
            match from_json(line):
                case {"name": str(name), "value": value, "time": int() | float() as time, "labels": dict(labels)}:
                    value = float(value) if isinstance(value, int | float) else nan
                    self._add(name, value if isfinite(value) else nan, float(time), labels)
        except (ValueError, OverflowError):
            self._reader.unreadable += 1

    def _add(self, name: str, value: float, time: float, labels: Mapping[str, Any]) -> None:
        step = labels.get("step")
        if not isinstance(step, int) or abs(step) >= 1 << 62 or not isfinite(time):
            return
        series = SeriesKey(str(labels.get("node", "")), name, part=str(labels.get("rank", 0)))
        rows = self.measured.get(series)
        if rows is None:
            rows = self.measured[series] = Steps(array("d"), array("d"), array("q"))
        rows.times.append(time)
        rows.values.append(value)
        rows.steps.append(step)
        self._ends(time)

    def _ends(self, time: float) -> None:
        if isfinite(time):
            self.last_time = max(self.last_time, time)
