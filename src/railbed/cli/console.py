"""Consoles of rich whose colours are ours and whose text cannot steer the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from railbed.model.printable import clean


class SafeConsole(Console):
    """Cleans all text at the last moment, whatever it was part of: a table, a bar, a line."""

    @property
    def file(self) -> IO[str]:
        """The stream itself, past all that stands before it: a bar's own, and the one that cleans."""
        stream = super().file
        while inner := getattr(stream, "rich_proxied_file", None):
            stream = inner
        return stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)
