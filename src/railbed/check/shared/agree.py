"""If every port of a rail has the same value and the cluster file another, the file is the likelier mistake.

A remedy must not break a working rail, so it suggests correcting the file, or checking the switch first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from railbed.check.site import PortView
from railbed.rules.rule import Unread

V = TypeVar("V", bound=Hashable)


def agreed(port: PortView, value_of: Callable[[PortView], V | None]) -> V | None:
    """Return the value that two or more ports of a rail all have; None if one differs or is not known."""
    values = {_value(peer, value_of) for peer in port.rail_ports}
    return values.pop() if len(values) == 1 and len(port.rail_ports) > 1 else None


def _value(port: PortView, value_of: Callable[[PortView], V | None]) -> V | None:
    try:
        return value_of(port)
    except Unread:
        return None


def write_at_rail(port: PortView, key: str, value: object) -> str:
    """Return the edit that sets a value for the rail of a port."""
    return f"write `{key}: {value}` at {port.port.rail} in the cluster file"


def follow_rail(key: str, value: object) -> str:
    """Return the alternative to changing every port of a rail: an edit of the policy."""
    edit = f"write `{key}: {value}` into `policy:` of the cluster file"
    return f"all ports of the rail have it: if the switch does too, {edit}"
