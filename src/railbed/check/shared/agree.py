"""If every port of a rail has the same value and the cluster file another, the file is the likelier mistake.

A remedy must not break a working rail, so it suggests correcting the file, or checking the switch first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from railbed.rules.site import PortView

V = TypeVar("V", bound=Hashable)


def agreed(port: PortView, value_of: Callable[[PortView], V | None]) -> V | None:
    """Return the value that two or more ports of a rail all have; None if one differs or is not known."""
    counts = port.on_rail(value_of)
    return next(iter(counts)) if len(counts) == 1 and sum(counts.values()) > 1 else None


def write_at_rail(port: PortView, key: str, value: object) -> str:
    """Return the edit that sets a value for the rail of a port."""
    return f"write `{key}: {value}` at {port.port.rail} in the cluster file"


def follow_rail(key: str, value: object) -> str:
    """Return the alternative to changing every port of a rail: an edit of the policy."""
    edit = f"write `{key}: {value}` into `policy:` of the cluster file"
    return f"all ports of the rail have it: if the switch does too, {edit}"
