"""The interface of a screen, and the simplest one: records as JSON lines."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from railbed.cli.screens.progress import ProgressLine
from railbed.model.record import Record
from railbed.store import to_line


class Screen(ABC):
    """Shows records as they arrive, and progress in between."""

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
        """Note the run's folder, before the first record is shown."""

    @abstractmethod
    def show(self, record: Record) -> None:
        """Show one record."""

    @abstractmethod
    def finish(self, run: Path) -> None:
        """Show the final output."""

    def cut_short(self, run: Path) -> None:  # noqa: B027  (most have nothing to show before their end)
        """Show the results of a run that was interrupted or failed."""

    def conclude(self, reason: str) -> None:  # noqa: B027  (JSON has the exit code)
        """Show, last of all, why the exit code is not 0."""


class JsonScreen(Screen):
    """Records as JSON lines on standard output; progress only if that is not the same terminal."""

    def __init__(self) -> None:
        super().__init__(progress=sys.stderr.isatty() and not sys.stdout.isatty())

    def show(self, record: Record) -> None:
        """Write one line."""
        self.line.take(record)
        sys.stdout.write(to_line(record).decode() + "\n")
        sys.stdout.flush()

    def finish(self, run: Path) -> None:
        """Print nothing else on standard output."""
