"""Files beside the records of a training run, logs for TensorBoard, metrics, and samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from railbed.errors import os_reason
from railbed.model.record import Record
from railbed.report.reading.metrics import FILE, as_json, metrics
from railbed.report.reading.run import read
from railbed.store import write_atomically
from railbed.store.tensorboard import TensorBoardLogs
from railbed.watch.series import RunSeries


@contextmanager
def training_files(run: Path, *, series: RunSeries) -> Iterator[Callable[[Record], None]]:
    """Store samples, log the records, and write the metrics when the run has ended, normally or not.

    A file that cannot be written is reported on standard error; it does not change how the run ended.
    """
    logs = TensorBoardLogs(run)
    try:
        with series.stored_in(run):
            yield logs.take
    finally:
        logs.close()
        if logs.problem:
            _warn(logs.problem)
        try:
            write_atomically(run / FILE, as_json(metrics(read(run))), mode=0o600)
        except OSError as error:
            _warn(f"{run / FILE} could not be written: {os_reason(error)}")


def _warn(sentence: str) -> None:
    sys.stderr.write(f"railbed: {sentence}\n")
