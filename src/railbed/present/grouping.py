"""Items with the same key in one group: the one way in which alike nodes, ports, findings and changes are merged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return the items with equal keys in groups, in order of first occurrence."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
