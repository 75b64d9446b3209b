"""Text with a hanging indent: lines that continue another one start below its text, not in column 0."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

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
