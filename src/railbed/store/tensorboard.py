"""The measures of a run over its steps, as logs for TensorBoard: beside the records, and while they come.

A tag is the name of a measure; what each rank measures for itself has a tag for each rank. Every generation of ranks
begins a new file with a mark from which on TensorBoard forgets older steps, so that what a restart threw away does not
stay in the curves. Written with TensorBoard's own library, which is loaded here and nowhere else; written without a
thread, so that a full disk is an error here and no traceback of somebody else's.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any, BinaryIO

from railbed.errors import os_reason
from railbed.model.private import for_us_alone
from railbed.model.record import OF_STATE, Event, Measurement, Record

FOLDER = "tensorboard"
OF_ALL = ("loss", "validation_loss", "learning_rate", "gradient_norm", "tokens_per_second")
"""Told once for all ranks."""
FLUSH_SECONDS = 1.0


class TensorBoardLogs:
    """Takes the records of a run; what is no measure of a step is passed over.

    A log that cannot be written ends the logs, never the run: `problem` says in a sentence why there are none.
    """

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._file: BinaryIO | None = None
        self._generation = 0
        self._flushed = 0.0
        self.problem = ""
        self._library = _Library.load()
        if self._library is None:
            self.problem = "no logs for TensorBoard: the library is missing (pip install 'railbed[train]')"

    def take(self, record: Record) -> None:
        """Write one record."""
        if self._library is None or self.problem:
            return
        try:
            match record:
                case Event(name="generation"):
                    self._end_file()
                    self._generation += 1
                case Measurement(labels={"step": int(step)}):
                    self._write(self._library, record, step)
        except OSError as error:
            self.problem = f"the logs for TensorBoard end here: {os_reason(error)}"

    def close(self) -> None:
        """Write what is not written yet."""
        try:
            self._end_file()
        except OSError as error:
            self.problem = self.problem or f"the logs for TensorBoard are not whole: {os_reason(error)}"

    def _write(self, library: _Library, record: Measurement, step: int) -> None:
        if self._file is None:
            self._file = self._begin_file(library, step + 1 if record.name in OF_STATE else step)
        self._file.write(library.scalar(_tag(record), record.value, step, record.time))
        now = time.monotonic()
        if now - self._flushed > FLUSH_SECONDS:
            self._file.flush()
            self._flushed = now

    def _begin_file(self, library: _Library, step: int) -> BinaryIO:
        """Begin the file of a generation. TensorBoard reads files in the order of their names."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"events.out.tfevents.{time.time():010.0f}.{self._generation:05d}.{socket.gethostname()}"
        file = open(self._folder / name, "wb", opener=for_us_alone)  # noqa: SIM115  (until the next one)
        file.write(library.begin(step))
        return file

    def _end_file(self) -> None:
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
        """Load the library; None where it is not installed."""
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            return None
        return cls(event_pb2, summary_pb2, RecordWriter)

    def begin(self, step: int) -> bytes:
        """Return the beginning of a file, with the mark that older steps from this one on are void."""
        now = time.time()
        version = self._event.Event(wall_time=now, file_version="brain.Event:2")
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        return self._framed(version) + self._framed(self._event.Event(wall_time=now, step=step, session_log=start))

    def scalar(self, tag: str, value: float, step: int, at: float) -> bytes:
        """Return one point of a curve."""
        summary = self._summary.Summary(value=[self._summary.Summary.Value(tag=tag, simple_value=value)])
        return self._framed(self._event.Event(wall_time=at, step=step, summary=summary))

    def _framed(self, event: Any) -> bytes:  # noqa: ANN401  (a message of the library)
        frame = _Bytes()
        self._writer(frame).write(event.SerializeToString())
        return frame.data


class _Bytes:
    """Stands for a file: what the library frames is written by us, in one piece."""

    data = b""

    def write(self, data: bytes) -> None:
        """Take the bytes."""
        self.data += data
