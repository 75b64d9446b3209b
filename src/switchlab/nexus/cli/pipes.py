"""Filters behind `|`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from switchlab.nexus.cli.context import Shown
from switchlab.nexus.cli.grammar import SyntaxFault, tokenize

UNSTRUCTURED = "ERROR: Structured output unsupported for this command\n"
MAX_LINE = 4096
_PART = re.compile(r"\\.|\[[^\]]{1,64}\]|.", re.DOTALL)
"""An escaped character, a set of characters (bounded, so that unclosed brackets take linear time), or a character."""


@dataclass(frozen=True, slots=True)
class Segment:
    text: str
    start: int


def split_commands(line: str) -> list[str]:
    """Split a line at ` ; `, but not inside quotes."""
    return [part.strip() for part in _split(line, _separators(line))]


def split_pipes(line: str) -> list[Segment]:
    """Split a line at `|`, but not inside quotes; each part with the column where it starts."""
    segments, start, quoted = [], 0, False
    for position, character in enumerate(line):
        quoted ^= character == '"'
        if character == "|" and not quoted:
            segments.append(Segment(line[start:position], start))
            start = position + 1
    return [*segments, Segment(line[start:], start)]


def _separators(line: str) -> list[int]:
    positions, quoted = list[int](), False
    for position, character in enumerate(line):
        quoted ^= character == '"'
        spaced = position > 0 and line[position - 1].isspace() and line[position + 1 : position + 2] in ("", " ")
        if character == ";" and not quoted and spaced:
            positions.append(position)
    return positions


def _split(line: str, positions: list[int]) -> list[str]:
    edges = [-1, *positions, len(line)]
    return [line[first + 1 : last] for first, last in pairwise(edges)]


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a test for a pattern with `|`, `.*`, `.`, `[…]`, `^` and `$`.

    Python's own `re` would hang on a hostile pattern; here each piece between `.*` is searched once, in order.
    """
    branches = [_compile_branch(branch) for branch in pattern.split("|")]
    return lambda line: any(branch(line) for branch in branches)


def _compile_branch(pattern: str) -> Callable[[str], bool]:
    anchored, ended = pattern.startswith("^"), pattern.endswith("$")
    body = pattern.removeprefix("^").removesuffix("$")
    pieces = [re.compile(_piece(piece)) for piece in body.split(".*")]

    def test(line: str) -> bool:
        position = 0
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            if last and ended:
                return any(piece.fullmatch(line, at) for at in range(position, len(line) + 1)) and not (
                    anchored and number == 0 and piece.fullmatch(line) is None
                )
            match = piece.match(line) if anchored and number == 0 else piece.search(line, position)
            if match is None:
                return False
            position = match.end()
        return True

    return test


def _piece(text: str) -> str:
    """Return a regular expression without any repetition: literal text, `.` and character sets."""
    parts = _PART.findall(text)
    out = ""
    for part in parts:
        if part == ".":
            out += "."
        elif part.startswith("[") and len(part) > 2:
            negated, inside = ("^", part[2:-1]) if part[1] == "^" and len(part) > 3 else ("", part[1:-1])
            out += f"[{negated}{_set(inside)}]"
        else:
            out += re.escape(part.removeprefix("\\") or "\\")
    return out


def _set(inside: str) -> str:
    ranges = re.findall(r"[0-9]-[0-9]|[a-z]-[a-z]|[A-Z]-[A-Z]|.", inside, flags=re.DOTALL)
    return "".join(str(item) if len(item) == 3 and item[0] <= item[2] else re.escape(item) for item in ranges)


def apply_filter(shown: Shown, text: str, segment: Segment, *, structured: bool) -> tuple[str, bool]:
    """Run one filter over the output so far; return the new text and whether it failed."""
    tokens = tokenize(segment.text)
    if not tokens:
        raise SyntaxFault("Incomplete command", segment.start)
    name = _filter_name(tokens[0].text.lower(), segment.start + tokens[0].start, structured=structured)
    rest = segment.text[tokens[0].start + len(tokens[0].text) :].strip().strip('"')
    if name in ("json", "json-pretty"):
        return _as_json(shown, pretty=name == "json-pretty")
    if name == "no-more":
        return text, False
    lines = text.splitlines()
    if name == "count":
        return f"{len(lines)}\n", False
    if not rest:
        raise SyntaxFault("Incomplete command", segment.start + len(segment.text.rstrip()))
    return "".join(f"{line}\n" for line in _FILTERS[name](lines, compile_pattern(rest[:MAX_LINE]))), False


def _filter_name(word: str, position: int, *, structured: bool) -> str:
    names: list[str] = ["no-more", "count", *_FILTERS, *(("json", "json-pretty") if structured else ())]
    if word in names:
        return word
    candidates = [name for name in names if name.startswith(word)]
    if not candidates:
        raise SyntaxFault("Invalid command", position)
    if len(candidates) > 1:
        raise SyntaxFault("Ambiguous command", position)
    return candidates[0]


def stringify(value: object) -> object:
    """Return data as `| json` prints it: every number as a string."""
    if isinstance(value, str):  # most values; looking for a mapping takes longer
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return [stringify(item) for item in value]
    return {key: stringify(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _as_json(shown: Shown, *, pretty: bool) -> tuple[str, bool]:
    if shown.data is None:
        return UNSTRUCTURED, True
    if not shown.data:
        return "", False
    return json.dumps(stringify(shown.data), indent=4 if pretty else None) + "\n", False


def _include(lines: list[str], test: Callable[[str], bool]) -> list[str]:
    return [line for line in lines if test(line)]


def _exclude(lines: list[str], test: Callable[[str], bool]) -> list[str]:
    return [line for line in lines if not test(line)]


def _begin(lines: list[str], test: Callable[[str], bool]) -> list[str]:
    start = next((number for number, line in enumerate(lines) if test(line)), len(lines))
    return lines[start:]


def _section(lines: list[str], test: Callable[[str], bool]) -> list[str]:
    """Keep matching lines and everything that is indented below them."""
    chosen: list[str] = []
    depth: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is not None and line.strip() and indent > depth:
            chosen.append(line)
            continue
        depth = indent if test(line) else None
        if depth is not None:
            chosen.append(line)
    return chosen


_FILTERS: dict[str, Callable[[list[str], Callable[[str], bool]], list[str]]] = {
    "include": _include,
    "exclude": _exclude,
    "begin": _begin,
    "section": _section,
    "grep": _include,
    "egrep": _include,
}
