"""Numbers as cells: the measured value, and the text that people read."""

from __future__ import annotations

from railbed.model.text.amount import number
from railbed.present.wording import percent, seconds, size, with_unit
from railbed.report.blocks import Value


def measured(value: float, unit: str) -> Value:
    """Return a value that is shown with its unit."""
    return Value(value, unit, with_unit(value, unit))


def bare(value: float, unit: str) -> Value:
    """Return a value whose unit is shown elsewhere, such as in a separate column."""
    return Value(value, unit, number(value))


def duration(value: float) -> Value:
    """Return a time in seconds."""
    return Value(value, "s", seconds(value))


def byte_count(value: float) -> Value:
    """Return an amount of data."""
    return Value(value, "byte", size(value))


def share(value: float) -> Value:
    """Return a share (0 to 1), shown as a percentage."""
    return Value(value, "1", percent(value))


def count(value: int) -> Value:
    """Return a number of items."""
    return Value(value, "1", f"{value:,}")
