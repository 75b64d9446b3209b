"""What the user sees of records: JSON lines, or text for people."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic_core import to_json

from railbed.cli.progress import ProgressLine
from railbed.model.cluster import Cluster
from railbed.model.record import Record


class Screen(ABC):
    """Shows records as they come, and between them that something goes on."""

    def __init__(self, *, progress: bool = True) -> None:
        self.line = ProgressLine(shown=progress)

    def __enter__(self) -> Self:
        self.line.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.line.stop()

    def begin(self, run: Path) -> None:  # noqa: B027  (most have nothing to say here)
        """Learn where the records are kept, before the first is shown."""

    @abstractmethod
    def show(self, record: Record) -> None:
        """Show one record."""

    @abstractmethod
    def finish(self, run: Path) -> None:
        """Show what can only be shown at the end."""

    def cut_short(self, run: Path) -> None:  # noqa: B027  (most have nothing to show before their end)
        """Show what there is of a run that was interrupted or failed."""

    def conclude(self, reason: str) -> None:  # noqa: B027  (JSON has the exit code)
        """Show, last of all, why the exit code is not 0."""


def make_screen(*, as_json: bool, verbose: bool, cluster: Cluster) -> Screen:
    """Return the screen that the user asked for."""
    if as_json:
        return JsonScreen()
    # Imported here because drawing takes as long to load as a small cluster takes to answer.
    from railbed.cli.tables import TextScreen

    return TextScreen(verbose=verbose, cluster=cluster)


class JsonScreen(Screen):
    """Records as JSON lines on standard output; progress only where that is not the same terminal."""

    def __init__(self) -> None:
        super().__init__(progress=sys.stderr.isatty() and not sys.stdout.isatty())

    def show(self, record: Record) -> None:
        """Write one line."""
        self.line.take(record)
        sys.stdout.write(to_json(record).decode() + "\n")
        sys.stdout.flush()

    def finish(self, run: Path) -> None:
        """Nothing else belongs on standard output."""
