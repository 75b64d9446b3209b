"""Patterns of grep and sed as Python has them, with few enough repetitions that no line takes long."""

from __future__ import annotations

import re
from itertools import pairwise

PIECE = re.compile(r"\\.|\[\^?\]?(?:\[:[a-z]+:\]|[^\]])*\]|.", re.DOTALL)
CLASSES = {
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:alnum:]": "A-Za-z0-9",
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
}
MOST_REPEATS = 3
LONGEST_PATTERN = 512
LONGEST_LINE = 4096


class BadPattern(Exception):
    """A pattern that is not understood, or that could take long."""


def compile_pattern(pattern: str, *, extended: bool = False, ignore_case: bool = False) -> re.Pattern[str]:
    """Return a pattern of grep; repetitions of groups are not understood."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern("bad regex: pattern too long")
    pieces = [_translate(piece, extended=extended) for piece in PIECE.findall(pattern)]
    repeats = sum(piece in ("*", "+") for piece in pieces)
    if repeats > MOST_REPEATS:
        raise BadPattern(f"bad regex: more than {MOST_REPEATS} repetitions")
    if pieces and pieces[0] in ("*", "+", "?"):
        pieces[0] = re.escape(pieces[0])
    for before, after in pairwise(pieces):
        if after in ("*", "+", "?") and before in (")", "*", "+", "?", "|", "("):
            raise BadPattern("bad regex: repetition of a group")
    try:
        return re.compile("".join(pieces), re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError) as error:
        raise BadPattern(f"bad regex: {error}") from error


def _translate(piece: str, *, extended: bool) -> str:
    special = "+?|(){}"
    if len(piece) == 2 and piece[0] == "\\":
        if not extended and piece[1] in "+?|()":
            return piece[1]
        return re.escape(piece[1])
    if piece.startswith("[") and len(piece) > 1:
        for name, members in CLASSES.items():
            piece = piece.replace(name, members)
        negated = piece.startswith("[^")
        inside = piece[2 if negated else 1 : -1]
        members = re.sub(r"([\[\]&~|])|\\(?!s)", lambda match: "\\" + (match[1] or "\\"), inside)
        return f"[{'^' if negated else ''}{members}]"
    if piece in special:
        return piece if extended and piece not in "{}" else re.escape(piece)
    return piece if piece in ".*^$" else re.escape(piece)
