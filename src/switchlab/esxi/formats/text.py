"""The text of esxcli: tables whose columns a dashed rule marks, and structures with indented fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from switchlab.esxi.formats.records import Answer, Fields, Value

NESTED = "      "


def render(answer: Answer) -> str:
    """Return the text of an answer."""
    if answer.is_table:
        return _table(answer)
    blocks = []
    for number, structure in enumerate(answer.structures):
        title = answer.titles[number] if answer.titles else answer.heading
        lines = [*([title] if title else []), *_lines(structure, answer.indent)]
        blocks.append("".join(f"{line}\n" for line in lines))
    return "\n".join(blocks)


def plain(value: Value) -> str:
    """Return a value as text has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ", ".join(value)
        case _:
            return str(value)


def _lines(structure: Fields, indent: str) -> Iterator[str]:
    for label, value in structure.items():
        if isinstance(value, Mapping):
            yield f"{indent}{label}: "
            yield from _lines(value, indent + NESTED)
        else:
            yield f"{indent}{label}: {plain(value)}"


def _table(answer: Answer) -> str:
    """Numbers and truth values are at the right of their column, everything else at the left."""
    rows = [[row.get(label, "") for label in answer.columns] for row in answer.structures]
    texts = [[plain(value) for value in row] for row in rows]
    widths = [max(len(line[index]) for line in [list(answer.columns), *texts]) for index in range(len(answer.columns))]
    right = [bool(rows) and all(isinstance(row[index], int) for row in rows) for index in range(len(answer.columns))]
    lines = [list(answer.columns), ["-" * width for width in widths], *texts]
    printed = [
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        for line in lines
    ]
    return "".join(f"{line.rstrip()}\n" for line in printed)
