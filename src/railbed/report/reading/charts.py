"""What a chart on the time axis shows, and its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the time axis: which meters it adds up for each device, and in which unit."""

    title: str
    unit: str
    meters: tuple[str, ...]
    _: KW_ONLY
    scale: float = 1.0
    highest: bool = False
    """Ranks and queues of a device are not added: the highest counts."""
    growth: bool = False
    """Left out if nothing was counted."""


@dataclass(frozen=True, slots=True)
class AxisLine:
    """A device on a chart: seconds since the start, and values; NaN is a gap."""

    device: str
    seconds: Sequence[float]
    values: Sequence[float]
    highest: float
