"""Compare recordings: every column, address and count."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from railbed.capture.packets import COLUMNS, Packets, Recording


def differences(left: Recording, right: Recording) -> list[str]:
    """Return what differs, by name and value."""
    names = [field.name for field in fields(Recording) if field.name not in ("packets", "name")]
    values = [(name, getattr(left, name), getattr(right, name)) for name in names]
    values += _values(left.packets, right.packets)
    return [f"{name}: {mine!r} instead of {other!r}" for name, mine, other in values if not _same(mine, other)]


def _values(left: Packets, right: Packets) -> list[tuple[str, Any, Any]]:
    values: list[tuple[str, Any, Any]] = [(name, left[name], right[name]) for name in COLUMNS.names or ()]
    values.append(("addresses", left.addresses, right.addresses))
    pauses = ("number", "time", "sender", "classes", "quanta")
    return values + [(f"pauses {name}", getattr(left.pauses, name), getattr(right.pauses, name)) for name in pauses]


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and bool(np.array_equal(left, right))
    return bool(left == right)
