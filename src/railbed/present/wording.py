"""Numbers with units, plurals, lists and times as people read them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from math import isfinite

from railbed.model import amount
from railbed.model.amount import number

NOT_KNOWN = "unknown"
JOIN = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, so that no line breaks there."""
_SHORT = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_DIGITS = re.compile(r"([0-9]{1,18})")


def seconds(value: float) -> str:
    """Return a duration."""
    if not isfinite(value):
        return NOT_KNOWN
    if value < 60:
        scale, unit = next((scale for scale in _SHORT if value >= scale[0]), _SHORT[0])
        return f"{number(value / scale, 3)}{JOIN}{unit}"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}{JOIN}min {rest}{JOIN}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}{JOIN}h {minutes}{JOIN}min"
    return f"{hours // 24}{JOIN}d {hours % 24}{JOIN}h"


def size(value: float) -> str:
    """Return a number of bytes, in powers of a thousand."""
    return amount.size(value).replace(" ", JOIN) if isfinite(value) else NOT_KNOWN


def percent(share: float) -> str:
    """Return a share (0 to 1) as a percentage."""
    return f"{number(share * 100, 3)}{JOIN}%" if isfinite(share) else NOT_KNOWN


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
    return f"{count:,}{JOIN}{singular if count == 1 else plural_form or singular + 's'}"


def counted(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts node2 before node10."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (0, part) for part in _DIGITS.split(name)]


def listed(names: Iterable[str]) -> str:
    """Return `a, b and c`."""
    words = list(names)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def moment(at: float) -> str:
    """Return a point in time, in the local time zone."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return NOT_KNOWN


def quoted(text: str) -> list[tuple[str, bool]]:
    """Return the parts of a text, each with whether it was in `backticks`: such a part is something to type."""
    return [(part, at % 2 == 1) for at, part in enumerate(_BACKTICKS.split(text))]
