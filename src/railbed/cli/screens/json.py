"""Records as JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path

from railbed.cli.screens.base import Screen
from railbed.model.record import Record
from railbed.store import to_line


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
