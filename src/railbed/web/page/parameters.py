"""The parameters of a request, each within bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from railbed.model.meters import METERS, SeriesKey
from railbed.present.charts import CHARTS, Chart
from railbed.web.access import AccessRefusal

MOST_BUCKETS = 2000
MOST_VALUES = 256
"""Of a parameter that may be repeated."""
LONGEST = 100
LATEST = 1e11
"""Seconds since the epoch: far enough, and exact."""
QUEUES = ("priority", "queue")
_BY_NAME = {chart.name: chart for chart in CHARTS}


@dataclass(frozen=True, slots=True)
class Filter:
    """The devices, ports, and priorities or queues that are drawn; an empty set means all."""

    devices: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()

    def accepts(self, series: SeriesKey) -> bool:
        """Whether a series is drawn; a series without port or queue belongs to all of them."""
        return (
            (not self.devices or series.device in self.devices)
            and (not self.ports or not series.port or series.port in self.ports)
            and (not self.parts or METERS[series.meter].part not in QUEUES or series.part in self.parts)
        )


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Part of the time axis, divided into buckets of equal width."""

    start: float
    end: float
    buckets: int

    @property
    def width(self) -> float:
        """Return the seconds of a bucket."""
        return (self.end - self.start) / self.buckets


def charts_of(query: QueryParams) -> list[Chart]:
    """Return the requested charts."""
    names = _several(query, "chart")
    if not names:
        raise AccessRefusal(400, "The parameter chart is missing.")
    if unknown := next((name for name in names if name not in _BY_NAME), None):
        raise AccessRefusal(404, f"There is no chart {unknown!r}.")
    return [_BY_NAME[name] for name in dict.fromkeys(names)]


def filter_of(query: QueryParams) -> Filter:
    """Return which series are requested."""
    return Filter(*(frozenset(_several(query, name)) for name in ("device", "port", "part")))


def window_of(query: QueryParams) -> TimeWindow:
    """Return the requested part of the time axis."""
    start, end = number(query, "start"), number(query, "end")
    if end - start < 1e-3:
        raise AccessRefusal(400, "end must be at least a millisecond after start.")
    buckets = number(query, "buckets", default=500)
    if buckets != int(buckets) or not 1 <= buckets <= MOST_BUCKETS:
        raise AccessRefusal(400, f"buckets must be a whole number from 1 to {MOST_BUCKETS}.")
    return TimeWindow(start, end, int(buckets))


def number(query: QueryParams, name: str, *, default: float | None = None) -> float:
    """Return a number that is given at most once."""
    values = query.getlist(name)
    if not values and default is not None:
        return default
    if len(values) != 1:
        raise AccessRefusal(400, f"The parameter {name} is needed exactly once.")
    try:
        value = float(values[0]) if len(values[0]) <= LONGEST else math.nan
    except ValueError:
        value = math.nan
    if not abs(value) <= LATEST:
        raise AccessRefusal(400, f"{name} must be a number, at most {LATEST:.0e}.")
    return value


def _several(query: QueryParams, name: str) -> list[str]:
    values = query.getlist(name)
    if len(values) > MOST_VALUES:
        raise AccessRefusal(400, f"The parameter {name} may be repeated at most {MOST_VALUES} times.")
    if any(len(value) > LONGEST for value in values):
        raise AccessRefusal(400, f"A value of {name} may have at most {LONGEST} characters.")
    return values
