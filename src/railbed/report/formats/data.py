"""A report for programs: as JSON with the same sections, and as CSV with every measurement. Numbers are not rounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from railbed import __version__
from railbed.model.record import Measurement
from railbed.model.text import clean, escape
from railbed.present.wording import JOIN
from railbed.report.blocks import (
    Block,
    BulletBlock,
    Cell,
    Entries,
    Facts,
    Figure,
    Fold,
    Heading,
    LadderBlock,
    ListBlock,
    MapBlock,
    TableBlock,
    TextBlock,
    Value,
)
from railbed.report.document import Report
from railbed.report.reading.run import measurements_in

OWN_COLUMNS = ("name", "value", "unit", "source", "time")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet treats text that begins like this as a formula."""


def as_json(document: Report) -> bytes:
    """Return a report as one JSON object."""
    sections = [
        {"name": part.name, "title": part.title, "blocks": [_block(block) for block in part.blocks]}
        for part in document.parts
    ]
    about = {"kind": "report", "of": document.title, "railbed": __version__, "about": _text(document.over)}
    verdict = {"verdict": _text(document.verdict.text), "tone": document.verdict.tone, "word": document.tone_word}
    text = to_json({**about, **verdict, "sections": sections}, indent=1, inf_nan_mode="null").decode()
    return escape(text).encode() + b"\n"


def _block(block: Block) -> dict[str, Any]:
    kind = block.template
    match block:
        case TextBlock() | Heading() | ListBlock():
            return {"type": kind, "text": clean(block.text)}
        case Facts() | BulletBlock():
            return {"type": kind, "items": _items(block)}
        case TableBlock():
            return {"type": kind, "columns": block.columns, "rows": [list(map(_cell, row)) for row in block.rows]}
        case Entries():
            entries = [
                {
                    "mark": item.mark.text,
                    "title": item.title,
                    "text": item.text,
                    "detail": item.detail,
                    "advice": item.advice,
                }
                for item in block.items
            ]
            return {"type": kind, "items": [{key: _text(text) for key, text in item.items()} for item in entries]}
        case Fold():
            return {"type": kind, "title": block.title, "blocks": [_block(item) for item in block.blocks]}
        case Figure() | LadderBlock() | MapBlock():
            return {"type": kind, "title": block.title, "note": block.note, **_drawing(block)}


def _items(block: Facts | BulletBlock) -> list[Any]:
    if isinstance(block, BulletBlock):
        return [_text(item) for item in block.items]
    return [{"name": name, "value": _cell(value)} for name, value in block.items]


def _drawing(block: Figure | LadderBlock | MapBlock) -> dict[str, Any]:
    if isinstance(block, Figure):
        return {"axes": _axes(block), "series": [_series(trace) for trace in block.traces]}
    return {"table": _block(block.table)}


def _series(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a trace, without its style; `reach` is the length of the whiskers."""
    series = {key: trace[key] for key in ("x", "y", "z") if key in trace}
    if "text" in trace:
        series["text"] = [unescape(text) for text in trace["text"]]
    reach = [trace[key]["array"] for key in ("error_x", "error_y") if key in trace]
    return {"name": unescape(str(trace.get("name", ""))), **series, **({"reach": reach[0]} if reach else {})}


def _axes(figure: Figure) -> dict[str, str]:
    """Return the titles of the axes, or the unit of their numbers."""
    axes = {name: figure.layout.get(f"{name}axis", {}) for name in ("x", "y")}
    return {
        name: str(axis.get("title", {}).get("text") or axis.get("ticksuffix", "").strip())
        for name, axis in axes.items()
    }


def _cell(value: Cell) -> Any:  # noqa: ANN401  (what JSON knows)
    if isinstance(value, Value):
        return {"value": value.value, "unit": value.unit, "text": _text(value.text)}
    return _text(value if isinstance(value, str) else value.text)


def _text(text: str) -> str:
    return clean(text).replace(JOIN, " ")


def as_csv(folder: Path) -> bytes:
    """Return every measurement of a run as a row: its name, value and unit, then its labels, each in its column."""
    labels = sorted({name for measurement in measurements_in(folder) for name in measurement.labels})
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*OWN_COLUMNS, *map(_safe, labels)])
    writer.writerows(_rows(measurements_in(folder), labels))
    return file.getvalue().encode()


def _rows(measurements: Iterable[Measurement], labels: Sequence[str]) -> Iterable[list[object]]:
    for measurement in measurements:
        values = [measurement.labels.get(name, "") for name in labels]
        value = measurement.value if isfinite(measurement.value) else ""
        yield [
            _safe(measurement.name),
            value,
            _safe(measurement.unit),
            measurement.source,
            measurement.time,
            *map(_safe, values),
        ]


def _safe(value: str | int) -> str | int:
    """Return a text that spreadsheets treat as text, without control characters."""
    if not isinstance(value, str):
        return value
    return f"'{clean(value)}" if value.startswith(_FORMULA) else clean(value)
