"""A report as Markdown, for a terminal, an issue or a wiki. Plots with few points become tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from typing import Any

from railbed import __version__
from railbed.model.text import clean, number
from railbed.present.wording import split_quoted
from railbed.report.blocks import (
    Block,
    BulletBlock,
    Cell,
    Code,
    Entries,
    Entry,
    Facts,
    Figure,
    Fold,
    Heading,
    LadderBlock,
    ListBlock,
    MapBlock,
    MarkCell,
    TableBlock,
    TextBlock,
    Value,
)
from railbed.report.document import Report

MOST_ROWS = 40
_STEERS = re.compile(r"([\\`*_\[\]<>#|~&])")
_FENCE = re.compile(r"`{3,}")


def as_markdown(document: Report) -> str:
    """Return a report as Markdown."""
    word = f"**{document.tone_word}.** " if document.tone_word else ""
    lines = [f"# {_plain(document.title)}", _plain(document.over), word + _prose(document.verdict.text)]
    for part in document.parts:
        lines += [f"## {_plain(part.title)}", *_blocks(part.blocks)]
    lines.append(f"Made by railbed {__version__} from {_plain(document.title)}.")
    return "\n\n".join(lines) + "\n"


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case TextBlock():
                yield _prose(block.text)
            case Heading():
                yield f"### {_plain(block.text)}" + (f" ({_plain(block.note)})" if block.note else "")
            case TableBlock():
                yield _table(block.columns, [[_cell(value) for value in row] for row in block.rows], block.numbers)
            case Facts() | Entries() | BulletBlock():
                yield _list(block)
            case ListBlock():
                yield _listing(block.text)
            case Fold():
                yield f"**{_plain(block.title)}**"
                yield from _blocks(block.blocks)
            case Figure() | LadderBlock() | MapBlock():
                yield from _drawing(block)


def _entry(entry: Entry) -> str:
    text = f"**{_plain(entry.mark.text)}** {_plain(entry.title)}: {_prose(entry.text)}"
    advice = f" → {_prose(entry.advice)}" if entry.advice else ""
    return text + advice + (f" ({_prose(entry.detail)})" if entry.detail else "")


def _drawing(block: Figure | LadderBlock | MapBlock) -> Iterator[str]:
    """Yield the title of a drawing and what it shows as a table."""
    yield f"**{_plain(block.title)}**"
    if isinstance(block, Figure):
        yield _figure(block)
    else:
        yield from _blocks([block.table])
    if block.note:
        yield _prose(block.note)


def _figure(figure: Figure) -> str:
    """Return the points of a plot, or a note if there are too many."""
    columns, rows = _points(figure)
    if len(rows) > MOST_ROWS:
        return f"{len(rows):,} points, left out here: the page (`--format html`) draws them, `--format json` has them."
    return _table(columns, rows, columns[1:])


def _points(figure: Figure) -> tuple[list[str], list[list[str]]]:
    """Return the points of a plot as a table: a row for each position, a column for each line."""
    traces: Sequence[Any] = figure.traces
    if figure.layout.get("yaxis", {}).get("showticklabels") is False:
        named = [(name, value) for trace in traces for name, value in zip(trace["text"], trace["x"], strict=True)]
        unit = figure.layout["xaxis"].get("ticksuffix", "").strip()
        return ["", unit or "value"], [[_format_value(name), _format_value(value)] for name, value in named]
    if any("z" in trace for trace in traces):
        (trace,) = traces
        rows = [
            [_format_value(name), *map(_format_value, line)] for name, line in zip(trace["y"], trace["z"], strict=True)
        ]
        return ["from / to", *map(_format_value, trace["x"])], rows
    turned = any(trace.get("orientation") == "h" or isinstance(next(iter(trace["y"]), 0), str) for trace in traces)
    place, height = ("y", "x") if turned else ("x", "y")
    columns = [{str(at): value for at, value in zip(trace[place], trace[height], strict=True)} for trace in traces]
    names = [_format_value(trace.get("name", "value")) for trace in traces]
    places = dict.fromkeys(at for column in columns for at in column)
    return ["", *names], [
        [_format_value(at), *(_format_value(column.get(at, "")) for column in columns)] for at in places
    ]


def _format_value(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    return _plain(unescape(str(value))) if value is not None else ""


def _list(block: Facts | Entries | BulletBlock) -> str:
    match block:
        case Facts():
            items = [f"{_plain(name)}: {_cell(value)}" for name, value in block.items]
        case Entries():
            items = [_entry(entry) for entry in block.items]
        case BulletBlock():
            items = [_prose(item) for item in block.items]
    return "\n".join(f"- {item}" for item in items)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    rule = ["---:" if column in numbers else "---" for column in columns]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[_plain(column) for column in columns], rule, *rows])


def _listing(text: str) -> str:
    """Return preformatted text, in a fence longer than any within it."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in _FENCE.findall(text))])
    return f"{fence}\n{clean(text)}\n{fence}"


def _cell(value: Cell) -> str:
    match value:
        case Code() if "`" not in value.text and "|" not in value.text and value.text.strip():
            return f"`{_line(value.text)}`"
        case MarkCell() | Value() | Code():
            return _plain(value.text)
        case str():
            return _prose(value)


def _prose(text: str) -> str:
    """Return text on one line; parts in backticks stay code."""
    return "".join(
        f"`{_line(part)}`" if code and "|" not in part else _plain(part) for part, code in split_quoted(text) if part
    )


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return _STEERS.sub(r"\\\1", _line(text))


def _line(text: str) -> str:
    return clean(text).replace("\n", " ").replace("\t", " ")
