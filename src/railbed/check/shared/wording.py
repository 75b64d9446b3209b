"""Short texts for tables, shared by rules about many peers or interfaces."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from railbed.rules.judgement import Judgement, skip

V = TypeVar("V", bound=Hashable)
SHOWN = 3


def some(names: Iterable[str], shown: int = SHOWN) -> str:
    """Return the first few names, and how many more there are."""
    names = list(names)
    more = len(names) - shown
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:shown])} and {more} more"


def grouped(values: Mapping[str, V]) -> dict[V, list[str]]:
    """Return the names by value, the rarest value first: that is where the outlier is."""
    groups: dict[V, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return dict(sorted(groups.items(), key=lambda group: len(group[1])))


def no_interface(netdev: str) -> Judgement:
    """Leave a missing interface to the rule `link_up`."""
    return skip(f"no interface {netdev}: see link_up")
