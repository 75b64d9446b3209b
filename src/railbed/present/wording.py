"""Numbers with units, plurals, lists and times as people read them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from math import isfinite

from railbed.model.text import amount
from railbed.model.text.amount import number

NOT_KNOWN = "unknown"
JOIN = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, so that no line breaks there."""
_NUMBER_SPACE = re.compile(r"(?<=\d) (?=\D)")
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_DIGITS = re.compile(r"([0-9]{1,18})")


def seconds(value: float) -> str:
    """Return a duration."""
    return _join_unit(amount.duration(value)) if _is_finite(value) else NOT_KNOWN


def size(value: float) -> str:
    """Return a number of bytes, in powers of a thousand."""
    return _join_unit(amount.size(value)) if _is_finite(value) else NOT_KNOWN


def percent(share: float) -> str:
    """Return a share (0 to 1) as a percentage."""
    return f"{number(share * 100, 3)}{JOIN}%" if _is_finite(share) else NOT_KNOWN


def with_unit(value: float, unit: str) -> str:
    """Return a measured value."""
    match unit:
        case "s":
            return seconds(value)
        case "byte":
            return size(value)
        case "1" | "":
            return f"{value:,.0f}" if value.is_integer() and value >= 0 else number(value)
        case "us":
            return f"{number(value)}{JOIN}µs"
        case _:
            return f"{number(value)}{JOIN}{unit}"


def plural(count: int, singular: str, plural_form: str = "") -> str:
    """Return `1 restart`, `2 restarts`."""
    return amount.plural(count, singular, plural_form).replace(" ", JOIN, 1)


def counted(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts node2 before node10."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (0, part) for part in _DIGITS.split(name)]


def listed(names: Iterable[str]) -> str:
    """Return `a, b and c`."""
    words = list(names)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def moment(at: float, form: str = "%Y-%m-%d %H:%M:%S %Z") -> str:
    """Return a point in time, in the local time zone."""
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return NOT_KNOWN


def quoted(text: str) -> list[tuple[str, bool]]:
    """Return the parts of a text, each with whether it was in `backticks`: such a part is something to type."""
    return [(part, at % 2 == 1) for at, part in enumerate(_BACKTICKS.split(text))]


def _is_finite(value: float) -> bool:
    """Whether people can read a number; an integer may be too large for anything but text."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def _join_unit(text: str) -> str:
    return _NUMBER_SPACE.sub(JOIN, text)
