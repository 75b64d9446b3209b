"""A running `railbed train`: its records as they arrive, and how the run ended."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.support.background import Background
from tests.support.cli import environment
from tests.support.labs import RunningLab, cache_variables
from tests.support.smallrun import write_text

Records = list[dict[str, Any]]
SMALL = """
extends: tiny
steps: 60
model: {layers: 1, heads: 2, width: 40, context: 32, vocabulary: 512}
data: {files: [text.txt], validation: 0.1}
batch: {sequences: 12}
threads: 1
checkpoint: {steps: 10}
evaluation: {every: 0}
"""
"""One wide layer has as much to send as two narrow ones, and less to compute."""
WAIT_SECONDS = 300.0
"""Far more than anything takes: what is not there by then never comes."""


class Training:
    """A run in another process; its records are read as they come."""

    def __init__(self, process: Background | subprocess.Popen[bytes]) -> None:
        self.process = process
        self.records: Records = []
        self.generation = 0
        self.nodes: list[str] = []
        """Nodes of the generation that runs."""
        self.steps = 0
        """Steps that this generation has made."""
        self.step = 0
        """The last step that was reported."""
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it if it still runs, and wait for the end of its output: nobody may close a pipe that a thread reads."""
        self.process.kill()
        self._reader.join(WAIT_SECONDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def until(self, met: Callable[[dict[str, Any]], bool], seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Read on until a record meets a condition, and return it; hanging and ending before that are errors."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                break
            assert line, f"the run ended: {self.last_events()}"
            if met(self._note(json.loads(line))):
                return self.records[-1]
        raise AssertionError(f"no such record within {seconds:g} s; the last events: {self.last_events()}")

    def end(self, seconds: float = WAIT_SECONDS) -> int:
        """Read the rest, and return how it ended."""
        deadline = time.monotonic() + seconds
        while line := self._lines.get(timeout=max(0.0, deadline - time.monotonic())):
            self._note(json.loads(line))
        return self.process.wait(10.0)

    def _note(self, record: dict[str, Any]) -> dict[str, Any]:
        self.records.append(record)
        if record.get("name") == "generation":
            self.generation, self.nodes, self.steps = record["data"]["generation"], record["data"]["nodes"], 0
        if record.get("name") == "loss":
            self.steps, self.step = self.steps + 1, record["labels"]["step"]
        return record

    def last_events(self) -> str:
        """Return the last events as text."""
        reported = [record for record in self.records if record["kind"] == "event" and record["name"] != "training"]
        return "\n".join(f"{event['name']} {event['subject']}: {event['message']}" for event in reported[-12:])


def training_site(lab: RunningLab, folder: Path, *, nodes: int | None = None, python: Path | None = None) -> RunningLab:
    """Return a lab as seen from a folder with a recipe, `small.yaml`; nodes work below the folder, on one disk."""
    write_text(folder)
    (folder / "small.yaml").write_text(SMALL)
    return lab.seen_from(folder, nodes=nodes, workdir=folder, python=python)


def with_port(lab: RunningLab, port: int) -> Path:
    """Write a cluster file that sets the port on which the ranks meet."""
    text = Path(lab.cluster).read_text()
    assert "\ntraining:\n" in text
    path = lab.folder / "port.yaml"
    path.write_text(text.replace("\ntraining:\n", f"\ntraining:\n  rendezvous_port: {port}\n"))
    return path


@contextmanager
def training(lab: RunningLab, *options: str) -> Iterator[Training]:
    """Start a run in the lab's folder; it is killed in the end if it still runs."""
    variables = environment(**cache_variables(), RAILBED_RUNS=str(lab.folder / "runs"))
    words = ["train", *options, "--json"]
    with (
        Background(words, cwd=lab.folder, env=variables, errors_shown=True) as process,
        Training(process) as run,
    ):
        yield run


def trained(lab: RunningLab, *options: str) -> Records:
    """Train to the end, undisturbed."""
    with training(lab, *options) as run:
        code = run.end()
    assert code == 0, run.last_events()
    return run.records


def losses(records: Sequence[dict[str, Any]]) -> dict[int, float]:
    """Return the last loss of each step: that of the history which went on."""
    return {record["labels"]["step"]: record["value"] for record in records if record.get("name") == "loss"}


def events(records: Sequence[dict[str, Any]], name: str) -> Records:
    return [record for record in records if record["kind"] == "event" and record["name"] == name]


def assert_files_agree(run: Path, records: Sequence[dict[str, Any]]) -> None:
    """Of steps that were done again, the metrics and curves of a run have the last.

    Where a fault swallowed the message of rank 0, a step has the times of the others, and no loss.
    """
    metrics = json.loads((run / "training_metrics.json").read_text())
    assert {row["step"]: row["loss"] for row in metrics["steps"] if row["loss"] is not None} == losses(records)
    reasons = [restart["why"] for restart in metrics["restarts"]]
    assert reasons == [event["message"] for event in events(records, "restart")]
    curves = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    shown = [(point.step, point.value) for point in curves.Scalars("loss")]
    assert shown == [(step, pytest.approx(loss)) for step, loss in sorted(losses(records).items())]
