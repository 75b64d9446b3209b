"""Numbers as people read them: significant digits, thousands separators, no exponent for large numbers."""

from __future__ import annotations

from math import isfinite

SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


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
    """Return a short time: 12.5 s, or 740 ms."""
    return f"{number(seconds, 3)} s" if seconds >= 1 else f"{number(1e3 * seconds, 3)} ms"
