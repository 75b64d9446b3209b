"""Draw a program's terminal output, with its colours, as an SVG that needs no fonts of its own."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
SIZE, ADVANCE, LEADING = 14, 8.4, 19
MARGIN, BAR = 16, 34
BACKGROUND, BORDER, PLAIN, TITLE = "#161b22", "#444c56", "#d1d7e0", "#9198a1"
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
COLOURS = ("#6e7681", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff")
"""A terminal's eight colours, in its own order; bright ones look the same."""
DIM = "#9198a1"


def draw(text: str, *, columns: int, title: str) -> str:
    """Return the picture of a terminal with that many columns; longer lines wrap."""
    console = Console(width=columns)
    lines = list(Text.from_ansi(text).wrap(console, columns))
    width, height = round(columns * ADVANCE + 2 * MARGIN), len(lines) * LEADING + BAR + MARGIN
    buttons = "".join(f'<circle cx="{20 + 18 * n}" cy="18" r="5.5" fill="{fill}"/>' for n, fill in enumerate(BUTTONS))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{FONT}" font-size="{SIZE}" fill="{PLAIN}">',
        f"<title>{escape(title)}</title>",
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="{BACKGROUND}" stroke="{BORDER}"/>',
        buttons,
        f'<text x="{width / 2:g}" y="23" fill="{TITLE}" text-anchor="middle">{escape(title)}</text>',
        *(_line(console, line, BAR + SIZE + number * LEADING) for number, line in enumerate(lines)),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _line(console: Console, line: Text, y: int) -> str:
    line.rstrip()
    return "".join(_runs(console, line, y))


def _runs(console: Console, line: Text, y: int) -> Iterator[str]:
    """Yield the pieces of a line, each positioned at its column, whatever the font's own width."""
    column = 0
    for text, style, _ in line.render(console):
        cells = text.rstrip("\n")
        visible = cells.strip()
        if visible:
            x = MARGIN + (column + len(cells) - len(cells.lstrip())) * ADVANCE
            length = f' textLength="{len(visible) * ADVANCE:g}"' if len(visible) > 1 else ""
            yield f'<text x="{x:g}" y="{y}"{length}{_paint(style)} xml:space="preserve">{escape(visible)}</text>'
        column += len(cells)


def _paint(style: Style | None) -> str:
    if style is None:
        return ""
    number = style.color.number if style.color else None
    fill = COLOURS[number % 8] if number is not None and number < 16 else DIM if style.dim else None
    return (f' fill="{fill}"' if fill else "") + (' font-weight="bold"' if style.bold else "")
