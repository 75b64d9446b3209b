"""Follows the records of a run, or the notes about it: events, findings, and what the training measured."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from railbed.errors import UsageError, os_reason
from railbed.model.events import CountersRead, DeviceRead, LogLine, Progress
from railbed.model.meters import METERS, SeriesKey
from railbed.model.record import Change, Event, Finding
from railbed.model.regular import open_regular
from railbed.store.records import NewLines, RecordReader, measurement_name

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
