"""Text for terminals that cannot control them: consoles of rich, hanging indents, and where a report is written to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from railbed.errors import UsageError, os_reason
from railbed.model.text import clean, exists, is_file
from railbed.store import resolve_links, write_atomically


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


STANDARD_OUTPUT = Path("-")


def write_page(path: Path, content: bytes, *, typed: bool, hint: str = "") -> None:
    """Write to a file, atomically, or to standard output; a link is followed only in a path that the user typed."""
    if path == STANDARD_OUTPUT:
        # Unchanged: quoted text was cleaned when the page was built, and its script may contain any character.
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    is_followed = typed or not path.is_symlink()
    if is_followed and exists(path) and not is_file(path):
        raise UsageError(f"cannot write the page to {path}: it is not a file", hint=hint)
    try:
        # A link that the user named stays: its target is replaced. Another may be planted: it is replaced itself.
        write_atomically(resolve_links(path) if typed else path, content)
    except OSError as error:
        raise UsageError(f"cannot write the page to {path}: {os_reason(error)}", hint=hint) from error


LEAST_WIDTH = 20
SEPARATOR = " ;"
"""Between the commands of a switch on one line."""


def print_hanging(console: Console, text: Text, *, first: Text | None = None, indent: int) -> None:
    """Print a text after `first`; the lines that continue it are indented."""
    prefix = first or Text()
    prefix.pad_right(max(0, indent - prefix.cell_len) if first else 0)
    for line in text.wrap(console, room(console, indent), overflow="fold"):
        line.rstrip()
        console.print(Text.assemble(prefix, line), soft_wrap=True)
        prefix = Text(" " * indent)


def room(console: Console, indent: int) -> int:
    """Return how many columns are left of the console's width."""
    return max(LEAST_WIDTH, console.width - indent)


def break_between_commands(text: str, width: int) -> str:
    """Break commands of a switch that are joined on one line between commands rather than inside them."""
    commands = text.split(f"{SEPARATOR} ")
    pieces = [f"{command}{SEPARATOR}" for command in commands[:-1]] + commands[-1:]
    lines = pieces[:1]
    for piece in pieces[1:]:
        joined = f"{lines[-1]} {piece}"
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(piece)
    return "\n".join(lines)
