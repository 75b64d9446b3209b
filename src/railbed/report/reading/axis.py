"""The series of a run as few lines on one time axis: summed or highest by device, with their extremes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railbed.model.meters import METERS, SeriesKey
from railbed.present.charts import Chart
from railbed.store.series.data import Floats, Integers
from railbed.store.timeline import Timeline

POINTS = 240
"""Intervals of the time axis: about as many as a page has room for."""
CONNECTED = 3
"""A line is interrupted after this many times the usual distance of its points without any."""


@dataclass(frozen=True, slots=True)
class AxisLine:
    """A device on a chart: seconds since the start, and values; NaN is a gap."""

    device: str
    seconds: Sequence[float]
    values: Sequence[float]
    highest: float


def lines_of(timeline: Timeline, chart: Chart, factor: float = 1.0) -> list[AxisLine]:
    """Return a line for each device, those with the highest values first; none if nothing was sampled.

    Values are in the unit of the chart, multiplied by a factor.
    """
    by_device: dict[str, list[SeriesKey]] = {}
    for series in timeline.series():
        if series.meter in chart.meters:
            by_device.setdefault(series.device, []).append(series)
    lines = [_line(timeline, chart, factor, device, series) for device, series in by_device.items()]
    lines = [line for line in lines if np.isfinite(line.highest)]
    if chart.quiet and not any(line.highest > 0 for line in lines):
        return []
    return sorted(lines, key=lambda line: line.highest, reverse=True)


def _line(timeline: Timeline, chart: Chart, factor: float, device: str, all_series: Sequence[SeriesKey]) -> AxisLine:
    low, high = np.full((2, POINTS), np.nan)
    for series in all_series:
        drawn = _in_intervals(timeline, series)
        low = _together(low, drawn[0], chart.highest)
        high = _together(high, drawn[1], chart.highest)
    is_measured = METERS[all_series[0].meter].of == "rank"
    breaks = _restarts(timeline) if is_measured else None
    seconds, values = _points(timeline, low * chart.scale * factor, high * chart.scale * factor, breaks)
    highest = float(np.fmax.reduce(high, initial=np.nan)) * chart.scale * factor
    return AxisLine(device, seconds.tolist(), values.tolist(), highest)


def _in_intervals(timeline: Timeline, series: SeriesKey) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value of a series in each interval of the axis."""
    drawn = timeline.drawn(series, timeline.start, timeline.end, POINTS)
    width = max((timeline.end - timeline.start) / POINTS, 1e-9)
    numbers = np.clip(((drawn.times - timeline.start) / width).astype(np.int64), 0, POINTS - 1)
    low, high = np.full((2, POINTS), np.nan)
    np.fmin.at(low, numbers, drawn.low)
    np.fmax.at(high, numbers, drawn.high)
    return low, high


def _together(first: Floats, second: Floats, highest: bool) -> Floats:
    """Return the values of two series as one; what only one of them has is taken from it."""
    if highest:
        return np.fmax(first, second)
    total: Floats = np.nan_to_num(first) + np.nan_to_num(second)
    return np.where(np.isnan(first) & np.isnan(second), np.nan, total)


def _restarts(timeline: Timeline) -> Integers:
    """Return the intervals in which ranks were restarted."""
    width = max((timeline.end - timeline.start) / POINTS, 1e-9)
    times = [mark.time - timeline.start for mark in timeline.marks() if mark.kind == "restart"]
    return np.array([int(time / width) for time in times], np.int64)


def _points(timeline: Timeline, low: Floats, high: Floats, breaks: Integers | None) -> tuple[Floats, Floats]:
    """Return the points of a line: two where an interval has two different extremes, a NaN in each gap.

    The steps of a training have no gaps but `breaks`: a step may take long.
    """
    filled = np.flatnonzero(~np.isnan(high))
    if not len(filled):
        return np.empty(0), np.empty(0)
    width = (timeline.end - timeline.start) / POINTS
    at = (filled + 0.5) * width
    visible = (high[filled] - low[filled]) > 0.01 * float(high[filled].max() - low[filled].min())
    times = np.repeat(at, 1 + visible)
    values = np.repeat(high[filled], 1 + visible)
    values[np.cumsum(1 + visible)[visible] - 1] = low[filled][visible]
    steps = np.diff(filled)
    if breaks is not None:
        is_gap = np.diff(np.searchsorted(breaks, filled)) > 0
    else:
        is_gap = steps > CONNECTED * np.median(steps) if len(steps) else steps > 0
    gaps = np.flatnonzero(is_gap)
    places = np.cumsum(1 + visible)[gaps]
    return np.insert(times, places, at[gaps] + width / 2), np.insert(values, places, np.nan)
