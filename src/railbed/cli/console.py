"""Consoles of rich whose text cannot control the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from railbed.model.text.printable import clean


class SafeConsole(Console):
    """Cleans all text just before it is printed: tables, bars and lines."""

    @property
    def file(self) -> IO[str]:
        """The stream itself, behind the wrappers of a bar and of `SafeStream`."""
        stream = super().file
        while inner := getattr(stream, "rich_proxied_file", None):
            stream = inner
        return stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield cleaned segments."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)
