"""Typed access to a parsed JSON object, raising ParseError if a field is missing or of another type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from railbed.errors import ParseError

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
        value = self._required(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string", value)
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string, or None if the key is absent or null."""
        return None if self._value.get(key) is None else self.text(key)

    def integer(self, key: str) -> int:
        """Return a whole number."""
        value = self._required(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "a whole number", value)
        return value

    def optional_integer(self, key: str) -> int | None:
        """Return a whole number, or None if the key is absent or null."""
        return None if self._value.get(key) is None else self.integer(key)

    def number(self, key: str) -> float:
        """Return a finite number, whole or not."""
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
            raise self._wrong(key, "a number", value)
        return float(value)

    def boolean(self, key: str) -> bool:
        """Return true or false."""
        value = self._required(key)
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

    def _required(self, key: str) -> object:
        if key not in self._value:
            raise ParseError(f"no field {key!r}", line=str(dict(self._value))[:120])
        return self._value[key]

    def _wrong(self, key: str, expected: str, value: object) -> ParseError:
        return ParseError(f"field {key!r} is not {expected}", line=str(value)[:80])


def records(objects: Iterable[object]) -> Iterator[Fields]:
    """Wrap parsed JSON objects."""
    return (Fields(item) for item in objects)
