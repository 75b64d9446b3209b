"""What carries the gradients, on the screen: in short beside the bar, in a line on changes, in full at the end."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from railbed.cli.screens.text import STYLES
from railbed.model.events import GradientPath
from railbed.model.text.printable import printable


class PathLine:
    """The latest verdict about the path of the gradients."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self._write = write
        self._latest: GradientPath | None = None

    def take(self, event: GradientPath) -> None:
        """Note the latest verdict; print it with its remedy if it changed."""
        before = self._latest.verdict if self._latest else None
        self._latest = event
        if event.verdict != before:
            self._write(event.message, self._style())
            if event.remedy:
                self._write(f"→ {event.remedy}", "cyan")

    @property
    def short(self) -> str:
        """Return the verdict in three words, as the end of a sentence."""
        return f", {self._latest.short}" if self._latest else ""

    def finish(self, console: Console) -> None:
        """Print the verdict in full."""
        if self._latest:
            console.print(Text(printable(self._latest.message), style=self._style()))

    def _style(self) -> str:
        assert self._latest is not None
        return STYLES[self._latest.verdict]
