"""What earlier starts of a job recorded: the recipe, the newest state, and whether they achieved anything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railbed.model import events
from railbed.model.record import Record
from railbed.store import read_records

READ = (events.TrainingStarted, events.CheckpointSaved, events.CheckpointCopied, events.Resuming)


@dataclass(slots=True)
class History:
    """The earlier starts of a job."""

    started: events.TrainingStarted | None = None
    """How the first training began; None if none has."""
    step: int = 0
    nodes: tuple[str, ...] = ()
    """The newest step whose state was saved, and the nodes that have it; none if the run's folder has it."""
    fruitless: int = 0
    """Starts in a row, up to now, that copied no new state to the run's folder."""

    def take(self, record: Record) -> None:
        """Take a record."""
        match record:
            case events.TrainingStarted():
                self.started = self.started or record
                self.fruitless += 1
            case events.CheckpointSaved(step=step, subject=node) if step >= self.step:
                self.nodes = (*self.nodes, node) if step == self.step and self.nodes else (node,)
                self.step = step
            case events.CheckpointCopied(step=step):
                self.fruitless = 0
                if step >= self.step:
                    self.step, self.nodes = step, ()
            case events.Resuming(step=int(step)):
                self.step, self.nodes = step, ()
            case _:
                pass


def read_history(folder: Path) -> History:
    """Return what the records of a run contain about its earlier starts."""
    history = History()
    with suppress(FileNotFoundError):
        for record in read_records(folder, *READ):
            history.take(record)
    return history
