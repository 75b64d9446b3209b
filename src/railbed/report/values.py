"""Numbers as cells: the value as it was measured, and beside it how a person reads it."""

from __future__ import annotations

from railbed.model.amount import number
from railbed.present.wording import percent, seconds, size, with_unit
from railbed.report.blocks import Value


def measured(value: float, unit: str) -> Value:
    """Return a value that is shown with its unit."""
    return Value(value, unit, with_unit(value, unit))


def bare(value: float, unit: str) -> Value:
    """Return a value whose unit is told elsewhere, as in a column of its own."""
    return Value(value, unit, number(value))


def duration(value: float) -> Value:
    """Return a time in seconds."""
    return Value(value, "s", seconds(value))


def byte_count(value: float) -> Value:
    """Return an amount of data."""
    return Value(value, "byte", size(value))


def share(value: float) -> Value:
    """Return a share of one, shown as percent."""
    return Value(value, "1", percent(value))


def count(value: int) -> Value:
    """Return how many there are."""
    return Value(value, "1", f"{value:,}")
