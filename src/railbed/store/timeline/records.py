"""Follows the records of a run, or the notes about it: events, findings, and what the training measured."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from railbed.errors import UsageError, os_reason
from railbed.model.record import Event, Finding
from railbed.model.regular import open_regular
from railbed.model.series import METERS, Series
from railbed.store.records import read_record

MEASURED = frozenset(name.encode() for name, meter in METERS.items() if meter.part == "rank")
IGNORED_EVENTS = frozenset({b"log", b"progress", b"device_read", b"counters"})
_NAME = b'{"name":"'
_BLOCK = 1 << 20


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
        self.measured: dict[Series, Steps] = {}
        self.last_time = 0.0
        self.unreadable = 0
        """Lines that are damaged, or unknown to this version."""
        self._path = path
        self._offset = 0
        self._rest = b""

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
            while data := os.pread(file.fileno(), _BLOCK, self._offset):
                self._offset += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                is_new |= bool(lines)
                for line in lines:
                    self._take(line)
        return is_new

    def _take(self, line: bytes) -> None:
        if line.startswith(_NAME):
            name = line[len(_NAME) : line.find(b'"', len(_NAME))]
            if name in MEASURED:
                self._measure(line)
                return
            if name in IGNORED_EVENTS or line.endswith(b'"kind":"measurement"}'):
                return
        try:
            record = read_record(line)
        except ValueError:
            self.unreadable += 1
            return
        if isinstance(record, Finding):
            self.findings.append(record)
        elif isinstance(record, Event) and isfinite(record.time):
            self.events.append(record)
        self._ends(record.time)

    def _measure(self, line: bytes) -> None:
        try:
            match from_json(line):
                case {"name": str(name), "value": value, "time": int() | float() as time, "labels": dict(labels)}:
                    value = float(value) if isinstance(value, int | float) else nan
                    self._add(name, value if isfinite(value) else nan, float(time), labels)
        except (ValueError, OverflowError):
            self.unreadable += 1

    def _add(self, name: str, value: float, time: float, labels: Mapping[str, Any]) -> None:
        step = labels.get("step")
        if not isinstance(step, int) or abs(step) >= 1 << 62 or not isfinite(time):
            return
        series = Series(str(labels.get("node", "")), name, part=str(labels.get("rank", 0)))
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
