"""Text shared by many formats: JSON, shell words and numbers, with a ParseError if they fail.

A field of a JSON object that is missing or of another type is such an error, too. Words from the cluster file in a
shell command are quoted, except for a leading `~`, which the shell expands.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from railbed.errors import ParseError

SECTION = re.compile(r"^==> (.*) <==$", re.MULTILINE)
"""The header before the output for one device, as `head` and `tail` print it."""

MAX_INTEGER_DIGITS = 40
MAX_SHELL_TEXT = 4096


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


LARGEST = 1e300
"""Larger numbers, infinity and NaN are not measurements."""


class Fields:
    """One JSON object of foreign origin."""

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict) and not isinstance(value, Mapping):  # most are dictionaries
            raise ParseError("expected a JSON object", line=str(value)[:80])
        self._value: Mapping[str, object] = value

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield all keys and values, unchecked."""
        return iter(self._value.items())

    def get(self, key: str) -> object:
        """Return a value, unchecked; None if the key is absent."""
        return self._value.get(key)

    def text(self, key: str) -> str:
        """Return a string."""
        value = self._require(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string", value)
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string, or None if the key is absent or null."""
        return None if self._value.get(key) is None else self.text(key)

    def integer(self, key: str) -> int:
        """Return a whole number."""
        value = self._require(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "a whole number", value)
        return value

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number, or None if the key is absent or null."""
        return None if self._value.get(key) is None else self.integer(key)

    def number(self, key: str) -> float:
        """Return a finite number, whole or not."""
        value = self._require(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
            raise self._wrong(key, "a number", value)
        return float(value)

    def boolean(self, key: str) -> bool:
        """Return true or false."""
        value = self._require(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of strings; empty if the key is absent."""
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of strings", value)
        return value

    def sub(self, key: str) -> Fields | None:
        """Return a nested object, or None if the key is absent or null."""
        value = self._value.get(key)
        return None if value is None else Fields(value)

    def subs(self, key: str) -> list[Fields]:
        """Return a list of nested objects; empty if the key is absent."""
        value = self._value.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(key, "a list", value)
        return [Fields(item) for item in value]

    def _require(self, key: str) -> object:
        if key not in self._value:
            raise ParseError(f"no field {key!r}", line=str(dict(self._value))[:120])
        return self._value[key]

    def _wrong(self, key: str, expected: str, value: object) -> ParseError:
        return ParseError(f"field {key!r} is not {expected}", line=str(value)[:80])


def records(objects: Iterable[object]) -> Iterator[Fields]:
    """Wrap parsed JSON objects."""
    return (Fields(item) for item in objects)


HOME = re.compile(r"~[A-Za-z0-9._-]*(?=/|\Z)")


def quote_path(path: str) -> str:
    """Quote a path or command name so that only a leading `~` or `~user` keeps its meaning."""
    home = HOME.match(path)
    if not home:
        return shlex.quote(path)
    rest = path[home.end() + 1 :]
    return f"{home.group()}/{shlex.quote(rest)}" if rest else home.group()


def quote_words(words: Iterable[str]) -> str:
    """Quote the words of a command, each as a path."""
    return " ".join(map(quote_path, words))


ONLY_INSTALLED = "import sys; sys.path[:] = filter(None, sys.path)"
"""Begins a program for `python_words`: Python before 3.11 looks for modules in the current folder nevertheless."""


def python_words(interpreter: Sequence[str], settings: Mapping[str, str] | None = None) -> str:
    """Return the words that start the Python of the ranks, for code that sees what the ranks see.

    Modules come from its own folders and those of its user alone, not from the current folder or a PYTHONPATH of the
    login: others may write there. `-I` would leave out the user's folder, where torch may be. Settings follow the
    launcher: not every container gets the environment of the machine.
    """
    *launcher, python = interpreter
    variables = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"} | dict(settings or {})
    assigned = [f"{name}={quote_path(value) if value else ''}" for name, value in variables.items()]
    return " ".join([*map(quote_path, launcher), "env", *assigned, quote_path(python)])
