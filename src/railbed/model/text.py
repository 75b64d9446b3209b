"""Text as people read it: numbers with units, foreign text made safe, and paths.

Every text of railbed takes its numbers, sizes, durations and counts from here.

Foreign text loses escape sequences, control and direction characters. Device output could otherwise control the
terminal: hide lines, change the title, or fake a verdict.

Paths as people type them: an unknown account after `~`, or a name that no disk allows, is a path without a file.
"""

from __future__ import annotations

import stat
import unicodedata
from math import isfinite
from pathlib import Path

SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
SHORT_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def number(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits and thousands separators."""
    if not isfinite(value):
        return "not a number" if value != value else ("−∞" if value < 0 else "∞")  # noqa: PLR0124  (that is NaN)
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}".replace("-", "−")
    if abs(value) < 1e-3:
        return f"{value:.{digits - 1}g}".replace("-", "−")
    return f"{value:#.{digits}g}".rstrip(".").replace("-", "−")


def size(value: float) -> str:
    """Return a number of bytes, in powers of a thousand: 31.2 GB."""
    power = 0
    while abs(value) >= 999.5 and power < len(SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{number(value, 3) if power else f'{value:.0f}'} {SIZES[power]}"


def duration(seconds: float) -> str:
    """Return a duration: 740 ms, 12.5 s, 2 min 29 s, 3 h 5 min, 2 d 1 h."""
    if seconds < 60:
        scale, unit = next((scale for scale in SHORT_TIMES if seconds >= scale[0]), SHORT_TIMES[0])
        return f"{number(seconds / scale, 3)} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def clock(seconds: float) -> str:
    """Return a duration that is still running, like a clock: 1:05, or 2:00:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def plural(count: int, singular: str, plural_form: str = "") -> str:
    """Return a count with its noun: `1 restart`, `2 restarts`, `3 switches`."""
    return f"{count:,} {singular if count == 1 else plural_form or singular + 's'}"


CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories: control, format (with direction), surrogate, private use, unassigned, line separators."""
ALLOWED = "\n\t"
REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Replace control characters with �; line ends and tabs stay."""
    if _is_harmless(text):
        return text
    return "".join(REPLACEMENT if _is_control(char) else char for char in text)


def printable(text: str) -> str:
    """Return the text on one line, with a space for each character that is not printed."""
    return "".join(char if char.isprintable() else " " for char in text)


def escape(text: str, *, ascii_only: bool = False) -> str:
    """Return equivalent JSON in which every control character is written as a JSON escape; or all but ASCII."""
    if _is_harmless(text):
        return text
    return "".join(_escape(char) if _is_control(char) or (ascii_only and not char.isascii()) else char for char in text)


def _is_harmless(text: str) -> bool:
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def _is_control(char: str) -> bool:
    return char not in ALLOWED and unicodedata.category(char) in CONTROL_CATEGORIES


def _escape(char: str) -> str:
    code = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def expand_home(path: str | Path) -> Path:
    """Return a path with `~` expanded; if there is no such account, it stays as it is, and reading it fails."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def exists(path: Path) -> bool:
    """Whether there is anything; False also where that cannot be found out."""
    return _mode(path) != 0


def is_file(path: Path) -> bool:
    """Whether a path leads to a file."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return the kind and the permissions of a file, 0 if there is none."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0
