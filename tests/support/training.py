"""A `railbed train` that runs: its records as they come, and what became of the run."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.cli import RAILBED, environment
from tests.support.labs import RunningLab, kept, running_lab

Records = list[dict[str, Any]]
SMALL = """
extends: tiny
steps: 120
model: {layers: 2, heads: 2, width: 32, context: 32, vocabulary: 512}
batch: {sequences: 12}
checkpoint: {steps: 10}
evaluation: {every: 0}
"""
WAIT_SECONDS = 120.0


class Training:
    """A run in another process; its records are read as they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.records: Records = []
        self.generation = 0
        self.nodes: list[str] = []
        """Nodes of the generation that runs."""
        self.steps = 0
        """Steps that this generation has made."""
        self.step = 0
        """The last step that was told."""
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

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
            assert line, f"the run ended: {self._words()}"
            if met(self._note(json.loads(line))):
                return self.records[-1]
        raise AssertionError(f"nothing of the kind within {seconds:g} s; the last words were: {self._words()}")

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

    def _words(self) -> str:
        told = [one for one in self.records if one["kind"] == "event" and one["name"] not in ("chosen", "training")]
        return "\n".join(f"{one['name']} {one['subject']}: {one['message']}" for one in told[-12:])


@contextmanager
def training_lab(folder: Path, *options: str) -> Iterator[RunningLab]:
    """Bring up four nodes; in the folder are a recipe, `small.yaml`, and `cluster.yaml` with its work folder there."""
    with running_lab(folder, "--nodes", "4", *options) as lab:
        (folder / "small.yaml").write_text(SMALL)
        # All nodes see one disk; what they put on it is below the given folder.
        text = lab.cluster.read_text().replace("training:", f"training:\n  workdir: {folder}")
        (folder / "cluster.yaml").write_text(text)
        yield lab


@contextmanager
def training(lab: RunningLab, *options: str) -> Iterator[Training]:
    """Start a run in the lab's folder; what is left of it in the end is killed."""
    with subprocess.Popen(
        [RAILBED, "train", *options, "--json"],
        cwd=lab.folder,
        env=environment(**kept(), RAILBED_RUNS=str(lab.folder / "runs")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509  (no threads yet)
    ) as process:
        try:
            yield Training(process)
        finally:
            process.kill()


def trained(lab: RunningLab, *options: str) -> Records:
    """Train to the end, undisturbed."""
    with training(lab, *options) as run:
        assert run.end() == 0
    return run.records


def losses(records: Sequence[dict[str, Any]]) -> dict[int, float]:
    """Return the last loss told of each step: that of the history which went on."""
    return {one["labels"]["step"]: one["value"] for one in records if one.get("name") == "loss"}


def events(records: Sequence[dict[str, Any]], name: str) -> Records:
    return [one for one in records if one["kind"] == "event" and one["name"] == name]
