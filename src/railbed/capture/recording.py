"""A recording on a node: what it is asked for, and what it sends.

It is asked for ports, how, and how much. What it sends is read strictly, since a node may send anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from railbed.capture.methods import Method
from railbed.model.cluster import Port

HEADERS_BYTES = 128
"""Keeps every header: VLAN tags, IPv6, the base header and the longest extended one, and hardly any payload."""
EVERYTHING_BYTES = 65535
PORT_BYTES = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLimits:
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
    limits: RecordingLimits
    folder: Path
    """Gets a folder for each node, with a file for each port."""


Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class PortState(_Message):
    """How far the recording of a port is."""

    packets: Count
    ended: bool


class RecorderProgress(_Message):
    """How far a node is, by port."""

    ports: dict[str, PortState]


class PortTotals(_Message):
    """The final counts of tcpdump on a port; None if it was killed before it could count."""

    captured: Count | None = None
    dropped: Count | None = None
    interface_dropped: Count | None = None
    reason: str = ""

    @property
    def lost(self) -> int | None:
        """What the kernel and the interface dropped."""
        return None if self.dropped is None else self.dropped + (self.interface_dropped or 0)


class RecorderEnd(_Message):
    """When a node surely recorded, in nanoseconds of its clock, and its final counts by port."""

    began: Count
    ended: Count
    ports: dict[str, PortTotals]
