"""The forms of esxcli's text: tables whose columns a dashed rule marks, and fields that are indented below a title.

Prompts, warnings and other lines around them are left out; a command that esxcli does not have, or refuses, is not
what a parser reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from railbed.errors import ParseError
from railbed.parsing.text import integer

RULE = re.compile(r"-+(?: +-+)*+ *+")
RUN = re.compile(r"-+")
FIELD = re.compile(r"( *+)([^\s:][^:]*+):(?: (.*))?")
INDENT = 3
NO_VALUE = frozenset({"", "-", "N/A", "null", "<unset>"})

Row = Mapping[str, str]
Tree = dict[str, "str | Tree"]
"""Fields by label; what is nested below a label is a tree itself."""


def table(text: str, *columns: str) -> list[Row]:
    """Return the rows of the table that has these columns, and maybe more."""
    lines = text.splitlines()
    for number in range(1, len(lines)):
        if RULE.fullmatch(lines[number]):
            starts = [run.start() for run in RUN.finditer(lines[number])]
            names = _cells(lines[number - 1], starts)
            if missing := [column for column in columns if column not in names]:
                raise ParseError(f"a table without the column {missing[0]!r}", line=lines[number - 1])
            rows = [line for line in lines[number + 1 :] if line.strip()]
            return [dict(zip(names, _cells(row, starts), strict=True)) for row in rows]
    raise ParseError("no table", line=text.strip()[:80])


def _cells(line: str, starts: Sequence[int]) -> list[str]:
    """Return what stands in each column; the space before a column is empty."""
    if any(start and line[start - 1 : start].strip() for start in starts):
        raise ParseError("a line that does not fit the columns above", line=line)
    ends = [*starts[1:], None]
    return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def fields(text: str) -> Tree:
    """Return the indented fields of one structure, with the fields below `Label:` as a tree."""
    root: Tree = {}
    stack: list[tuple[int, Tree]] = [(-1, root)]
    previous: tuple[int, str] | None = None
    for line in text.splitlines():
        match = FIELD.fullmatch(line.rstrip())
        if match is None:
            continue
        indent, label, value = len(match[1]), match[2], (match[3] or "").strip()
        if previous and indent > previous[0] and stack[-1][1].get(previous[1]) == "":
            below: Tree = {}
            stack[-1][1][previous[1]] = below
            stack.append((previous[0], below))
        while len(stack) > 1 and indent <= stack[-1][0]:
            stack.pop()
        stack[-1][1].setdefault(label, value)
        previous = (indent, label)
    if not root:
        raise ParseError("no field", line=text.strip()[:80])
    return root


def blocks(text: str) -> Iterator[tuple[str, Tree]]:
    """Yield each title with the fields that are indented below it."""
    title, below = "", list[str]()
    for line in text.splitlines():
        if not line.strip():
            continue
        if line[0] != " ":
            if title and below:
                yield title, fields("\n".join(below))
            title, below = line.strip(), []
        elif title:
            below.append(line)
    if title and below:
        yield title, fields("\n".join(below))


def word(tree: Tree, label: str) -> str | None:
    """Return a value, or None if the release does not report it."""
    value = tree.get(label)
    return None if not isinstance(value, str) or value in NO_VALUE else value


def require(tree: Tree, label: str) -> str:
    """Return a value that has to be there."""
    value = word(tree, label)
    if value is None:
        raise ParseError(f"no value for {label!r}", line=", ".join(tree)[:80])
    return value


def below(tree: Tree, label: str) -> Tree:
    """Return the fields below a label; none if it is not there."""
    value = tree.get(label)
    return value if isinstance(value, dict) else {}


def truth(text: str | None) -> bool | None:
    """Return a truth value; None if there is none."""
    if text is None or text in NO_VALUE:
        return None
    if text.lower() not in ("true", "false"):
        raise ParseError("expected true or false", line=text)
    return text.lower() == "true"


def optional_count(text: str | None) -> int | None:
    """Return a whole number; None if there is none."""
    return None if text is None or text in NO_VALUE else integer(text)


def split_list(text: str | None) -> tuple[str, ...]:
    """Return the items of a list with commas."""
    return tuple(item.strip() for item in (text or "").split(",") if item.strip())
