"""What is refused before YAML is parsed: files that would crash the parser or keep it busy for minutes."""

from __future__ import annotations

import re

from railbed.yamlfile.mistakes import Mistake

MAX_CHARACTERS = 512 * 1024
"""Five times the size of a file with a thousand nodes. Parsing takes a second per 100 kB."""
MAX_DEPTH = 50

VERSION = re.compile(r"^%YAML[ \t]+(?!1\.[12][ \t\r]*(?:$|#))", re.MULTILINE)
"""A version that the parser does not support; it raises many kinds of exceptions for it."""
OPENING, CLOSING = "[{", "]}"
BRACKET_OR_COMMENT = re.compile(r"[][{}]|(?:^|(?<=\s))#[^\n]*")


def refused(text: str, noun: str) -> Mistake | None:
    """Return why a text is refused without parsing it, or None."""
    if len(text) > MAX_CHARACTERS:
        return too_large(noun)
    if "\0" in text:
        return Mistake(f"a NUL byte; {noun} is plain text", _line(text, text.index("\0")))
    if version := VERSION.search(text):
        return Mistake("only YAML 1.2 is supported; remove the %YAML line", _line(text, version.start()))
    return _nested_too_deeply(text)


def too_large(noun: str) -> Mistake:
    """Return the mistake for a file that is too large for its kind."""
    return Mistake(f"larger than {MAX_CHARACTERS // 1024} KiB, which is too large for {noun}")


def _nested_too_deeply(text: str) -> Mistake | None:
    """Count open brackets: parsing takes quadratic time in their number.

    Brackets inside quotes count as well: no real file has fifty of them open at once.
    """
    depth = 0
    for match in BRACKET_OR_COMMENT.finditer(text):
        if match[0] in OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                return Mistake("nested too deeply", _line(text, match.start()))
        elif match[0] in CLOSING:
            depth = max(0, depth - 1)
    return None


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
