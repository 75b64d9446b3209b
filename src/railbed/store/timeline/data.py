"""What a timeline returns."""

from __future__ import annotations

from typing import Literal, NamedTuple

from railbed.model.meters import Meter, SeriesKey
from railbed.store.series.data import Floats

MarkKind = Literal["fault", "restart", "lost", "checkpoint", "gap", "clock", "traffic", "pause", "error", "notice"]


class Mark(NamedTuple):
    """Something that happened at a time, to show on every chart."""

    time: float
    kind: MarkKind
    subject: str
    """A device, or empty."""
    text: str
    generation: int | None = None
    """That ended, for a restart; or that began."""


class Track(NamedTuple):
    """A series as people read it: counters as rates, gauges in their unit; NaN is a gap."""

    series: SeriesKey
    meter: Meter
    unit: str
    times: Floats
    values: Floats


class Drawn(NamedTuple):
    """A series with few points to draw: lowest and highest value of each interval; NaN is a gap."""

    times: Floats
    low: Floats
    high: Floats
