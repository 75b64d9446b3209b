"""What remains of an incomplete run: its folder, what was saved, and the command that continues it."""

from __future__ import annotations

import shlex
from pathlib import Path

from railbed.api.kinds import has_checkpoint
from railbed.cli.background.runs import to_report, to_resume
from railbed.model import events
from railbed.model.record import Measurement, Record
from railbed.model.text import plural
from railbed.store import OpenRun, RunSummary


class KeptRun:
    """Notes what a run has saved so far."""

    def __init__(self, run: OpenRun) -> None:
        self._run = run
        self._records = 0
        self._steps = 0
        self._step = 0
        self._checkpoint: int | None = None
        self._trials: tuple[int, int] | None = None

    def take(self, record: Record) -> None:
        """Note one record."""
        self._records += 1
        match record:
            case Measurement(name="step_seconds", labels={"step": int(step)}):
                self._step = max(self._step, step)
            case events.TrainingStarted():
                self._steps = record.steps
            case events.CheckpointSaved(step=step) | events.Resumed(step=step):
                self._checkpoint = max(self._checkpoint or 0, step)
            case events.TrialStarted(done=int(done), total=int(total)):
                self._trials = done, total

    def notes(self) -> list[str]:
        """Return what was saved and how to continue, in two lines."""
        run = self._run.summary
        what = [plural(self._records, "record")]
        if self._trials:
            what.append(f"{self._trials[0]} of {self._trials[1]} trials measured")
        if self._steps:
            saved = "no checkpoint yet" if self._checkpoint is None else f"checkpoint of step {self._checkpoint}"
            what.append(f"{self._step} of {self._steps} steps, {saved}")
        return [f"saved in {self._run.folder}: {', '.join(what)}", _what_next(run, saved=self._checkpoint is not None)]


def next_command(run: RunSummary, folder: Path) -> str:
    """Return the command that continues an incomplete run from its checkpoint, or starts it again."""
    return to_resume(run) if run.verb == "train" and has_checkpoint(folder) else command_of(run)


def command_of(run: RunSummary) -> str:
    """Return the command that a run was started with."""
    return shlex.join(["railbed", *run.arguments])


def _what_next(run: RunSummary, *, saved: bool) -> str:
    if run.verb == "train":
        return f"continue: {to_resume(run)}" if saved else f"start again: {command_of(run)}"
    shown = f"{to_report(run.id)} shows it; " if run.verb == "bench" else ""
    return f"{shown}start again: {command_of(run)}"
