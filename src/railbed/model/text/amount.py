"""Numbers, sizes, durations and counts as people read them. Every text of railbed takes them from here."""

from __future__ import annotations

from math import isfinite

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
