"""What a recorder sends: read strictly, since a node may send anything."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class PortState(_Message):
    """How far the recording of a port is."""

    packets: Count
    ended: bool


class Progress(_Message):
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


class Ending(_Message):
    """When a node surely recorded, in nanoseconds of its clock, and its final counts by port."""

    began: Count
    ended: Count
    ports: dict[str, PortTotals]
