"""Text shared by many formats: sections by device, JSON, shell words and numbers, with a ParseError if they fail."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from railbed.errors import ParseError

SECTION = re.compile(r"^==> (.*) <==$", re.MULTILINE)
"""The header before the output for one device, as `head` and `tail` print it."""

MAX_INTEGER_DIGITS = 40
MAX_SHELL_TEXT = 4096


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) for each `==> name <==` section; text without any header is one section without a name.

    So a parser accepts both the output of our command for all devices and a person's saved output for one device.
    """
    headers = list(SECTION.finditer(text))
    if not headers:
        yield "", text
        return
    before = text[: headers[0].start()].strip()
    if before:
        raise ParseError("text before the first section", line=before.splitlines()[0])
    for header, following in zip(headers, [*headers[1:], None], strict=True):
        yield header.group(1), text[header.end() : following.start() if following else len(text)].strip("\n")


def json_list(text: str) -> list[dict[str, object]]:
    """Parse a JSON array of objects, as iproute2's tools print; empty text is an empty list."""
    if not text.strip():
        return []
    value = json_value(text)
    if not isinstance(value, list):
        raise ParseError("expected a JSON list", line=text.strip()[:80])
    # `ip -j` prints an empty object for entries that it filtered out.
    objects = [item for item in value if item != {}]
    for item in objects:
        if not isinstance(item, dict):
            raise ParseError("expected a list of JSON objects", line=str(item)[:80])
    return objects


def json_value(text: str) -> object:
    """Parse JSON, raising ParseError on anything else."""
    try:
        value: object = json.loads(text)
        if "\\ud" in text.lower() or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()  # an unpaired surrogate cannot be stored
    except (ValueError, RecursionError) as error:
        raise ParseError(f"not JSON ({error.__class__.__name__})", line=text.strip()[:80]) from error
    return value


def shell_words(text: str) -> list[str]:
    """Split text as a shell does, raising ParseError if a quote does not end, or the text is too long.

    shlex takes quadratic time in the length of a word.
    """
    if len(text) > MAX_SHELL_TEXT:
        raise ParseError(f"more than {MAX_SHELL_TEXT} characters", line=text)
    try:
        return shlex.split(text)
    except ValueError:
        raise ParseError("a quote that does not end", line=text) from None


def integer(text: str, *, base: int = 10) -> int:
    """Parse an integer, raising ParseError on anything else."""
    text = text.strip()
    try:
        if len(text) > MAX_INTEGER_DIGITS or not text.isascii():
            raise ValueError
        return int(text, base)
    except ValueError:
        raise ParseError("expected a whole number", line=text) from None


def number(text: str) -> float:
    """Parse a finite decimal number, raising ParseError on anything else."""
    text = text.strip()
    if not re.fullmatch(r"[+-]?\d{1,300}(\.\d{0,300})?([eE][+-]?\d{1,2})?", text, re.ASCII):
        raise ParseError("expected a number", line=text)
    return float(text)
