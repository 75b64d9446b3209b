"""What the command needs after a bench run: its folder, its numbers, and whether a second visit is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from railbed.model.events import FirstVisitDone
from railbed.model.record import Measurement, Record
from railbed.present.commands import cluster_option


@dataclass
class Noted:
    """Collects records of a run."""

    folder: Path = Path()
    measured: list[Measurement] = field(default_factory=list)
    first_visit: FirstVisitDone | None = None

    @contextmanager
    def beside(self, folder: Path) -> Iterator[Callable[[Record], None]]:
        """Begin a run."""
        self.folder = folder
        yield self.take

    def take(self, record: Record) -> None:
        """Note one record."""
        if isinstance(record, Measurement):
            self.measured.append(record)
        elif isinstance(record, FirstVisitDone):
            self.first_visit = record

    def second_visit(self, cluster: Path | None) -> str:
        """Return what to do before the second visit, and the command for it."""
        if self.first_visit is None:
            return ""
        command = f"railbed bench --second-visit {self.folder.name}{cluster_option(cluster)}"
        return f"{self.first_visit.message}: {command}"
