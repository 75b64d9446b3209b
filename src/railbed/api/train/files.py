"""Files beside the records of a training run, logs for TensorBoard, metrics, and samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from railbed.errors import os_reason
from railbed.model.record import Record
from railbed.report.reading.metrics import FILE, as_json, metrics
from railbed.report.reading.run import read
from railbed.store import write_atomically
from railbed.store.tensorboard import TensorBoardLogs
from railbed.watch.run import RunSeries


@contextmanager
def training_files(run: Path, *, series: RunSeries, warn: Callable[[str], None]) -> Iterator[Callable[[Record], None]]:
    """Store samples, log the records, and write the metrics when the run has ended, normally or not.

    `warn` gets a sentence about a file that cannot be written; it does not change how the run ended.
    """
    logs = TensorBoardLogs(run)
    try:
        with series.stored_in(run):
            yield logs.take
    finally:
        logs.close()
        if logs.problem:
            warn(logs.problem)
        try:
            write_atomically(run / FILE, as_json(metrics(read(run))), mode=0o600)
        except OSError as error:
            warn(f"{run / FILE} could not be written: {os_reason(error)}")
