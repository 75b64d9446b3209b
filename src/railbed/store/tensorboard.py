"""The measurements of a run over its steps, written as logs for TensorBoard while the run is in progress.

A tag is the name of a measurement; measurements of each rank have a tag per rank. Every generation of ranks
starts a new file with a mark that makes TensorBoard discard later steps, so that steps lost in a restart do not stay in
the curves. TensorBoard's own library is loaded only here, and used without its thread, so that a full disk
is an error here and not a traceback from the library.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from railbed.errors import os_reason
from railbed.model.events import GenerationStarted
from railbed.model.private import for_us_alone
from railbed.model.record import OF_STATE, Measurement, Record
from railbed.model.requirements import install_package

FOLDER = "tensorboard"
COUNTS = ("tokens", "trained_tokens")
OF_ALL = ("loss", "validation_loss", "learning_rate", "gradient_norm", "loss_scale", "tokens_per_second", *COUNTS)
"""Measured once for all ranks."""
FLUSH_SECONDS = 1.0


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
        """Measurements of one step and time, `_point`: written together, since each write takes the library long."""
        self.problem = ""
        self._library: _Library | None = None

    def take(self, record: Record) -> None:
        """Write one record."""
        if self.problem:
            return
        try:
            match record:
                case GenerationStarted():
                    self._end_file()
                    self._generation += 1
                case Measurement(labels={"step": int(step)}) if library := self._loaded():
                    self._write(library, record, step)
        except OSError as error:
            self.problem = f"logging for TensorBoard stopped: {os_reason(error)}"

    def close(self) -> None:
        """Write buffered data."""
        try:
            self._end_file()
        except OSError as error:
            self.problem = self.problem or f"the logs for TensorBoard are incomplete: {os_reason(error)}"

    def _loaded(self) -> _Library | None:
        """Load the library with the first step: it is slow to import, and ranks start without it."""
        if self._library is None:
            self._library = _Library.load()
            if self._library is None:
                self.problem = f"no logs for TensorBoard: the library is missing ({install_package('tensorboard')})"
        return self._library

    def _write(self, library: _Library, record: Measurement, step: int) -> None:
        if self._file is None:
            self._file = self._begin_file(library, step + 1 if record.name in OF_STATE else step)
        if self._point != (step, record.time):
            self._write_point(library)
            self._point = step, record.time
        self._values.append((_tag(record), record.value))
        now = time.monotonic()
        if now - self._flushed > FLUSH_SECONDS:
            self._write_point(library)
            self._file.flush()
            self._flushed = now

    def _write_point(self, library: _Library) -> None:
        values, self._values = self._values, []
        if self._file is not None and values:
            self._file.write(library.scalars(values, *self._point))

    def _begin_file(self, library: _Library, step: int) -> BinaryIO:
        """Start the file of a generation. TensorBoard reads files in the order of their names."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"events.out.tfevents.{time.time():010.0f}.{self._generation:05d}.{socket.gethostname()}"
        file = open(self._folder / name, "wb", opener=for_us_alone)  # noqa: SIM115  (until the next one)
        file.write(library.begin(step))
        return file

    def _end_file(self) -> None:
        try:
            if self._library is not None:
                self._write_point(self._library)
        finally:
            file, self._file = self._file, None
            if file is not None:
                file.close()


def _tag(record: Measurement) -> str:
    rank = record.labels.get("rank")
    return record.name if record.name in OF_ALL or rank is None else f"{record.name}/rank{rank}"


class _Library:
    """TensorBoard's own classes for its files."""

    def __init__(self, event: Any, summary: Any, writer: Any) -> None:  # noqa: ANN401  (the library has no types)
        self._event, self._summary, self._writer = event, summary, writer

    @classmethod
    def load(cls) -> _Library | None:
        """Load the library; None if it is not installed."""
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            return None
        return cls(event_pb2, summary_pb2, RecordWriter)

    def begin(self, step: int) -> bytes:
        """Return the start of a file, with the mark that discards earlier values from this step on."""
        now = time.time()
        version = self._event.Event(wall_time=now, file_version="brain.Event:2")
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        return self._framed(version) + self._framed(self._event.Event(wall_time=now, step=step, session_log=start))

    def scalars(self, values: Iterable[tuple[str, float]], step: int, at: float) -> bytes:
        """Return one point of each of some curves, by their tags."""
        points = [self._summary.Summary.Value(tag=tag, simple_value=value) for tag, value in values]
        summary = self._summary.Summary(value=points)
        return self._framed(self._event.Event(wall_time=at, step=step, summary=summary))

    def _framed(self, event: Any) -> bytes:  # noqa: ANN401  (a message of the library)
        frame = _Bytes()
        self._writer(frame).write(event.SerializeToString())
        return frame.data


class _Bytes:
    """A file in memory: the library frames the data, and we write it in one piece."""

    data = b""

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.data += data
