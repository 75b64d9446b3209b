"""What to record: ports, how, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from railbed.capture.methods import Method
from railbed.model.cluster import Port

HEADERS_BYTES = 128
"""Keeps every header: VLAN tags, IPv6, the base header and the longest extended one, and hardly any payload."""
EVERYTHING_BYTES = 65535
PORT_BYTES = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much to record on each port."""

    seconds: float | None = None
    """None: until it is stopped."""
    packets: int = 0
    """At most so many; 0 for no limit."""
    bytes: int = PORT_BYTES
    """Size of the ring of files: the oldest packets make room for new ones."""
    snap_length: int = HEADERS_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPlan:
    """A port and how to record it."""

    node: str
    port: Port
    method: Method

    @property
    def subject(self) -> str:
        """`node/interface`."""
        return f"{self.node}/{self.port.netdev}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrder:
    """What to record, and where to."""

    plans: Sequence[PortPlan]
    limits: Limits
    folder: Path
    """Gets a folder for each node, with a file for each port."""
