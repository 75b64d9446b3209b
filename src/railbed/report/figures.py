"""Figures as plain dicts for Plotly. Colours are names of the style sheet: see `Figure`.

The series of a run are few lines on one time axis: summed or highest by device, with their extremes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np

from railbed.model.meters import METERS, SeriesKey
from railbed.model.text import clean
from railbed.present.charts import Chart
from railbed.present.wording import plural
from railbed.report.blocks import Figure
from railbed.report.reading.series import Points
from railbed.store.series.rates import Floats, Integers
from railbed.store.timeline import Timeline

COLOURS = tuple(f"$c{number}" for number in range(1, 13))
MOST_MARKS = 200
LABEL_SHARE = 0.15
"""The share of the width that a label of a mark takes on a narrow screen: closer marks share a label."""
LABEL_HEIGHT = 14
FEW_POINTS = 60
MOST_TICKS = 7
LINEAR_SPAN = 20
"""If values differ by more than this factor, a linear scale is not readable."""
SECONDS = ((1.0, " s"), (1e-3, " ms"), (1e-6, " µs"))
BYTES = ((1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B"))
"""Units from the largest on; a figure uses the first that its values reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a figure."""

    name: str
    points: Points
    colour: str = COLOURS[0]
    dash: str = "solid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar, with the length of its whisker."""

    name: str
    value: float
    upper: float | None = None


def label(text: str) -> str:
    """Return text with tags and entities escaped, which Plotly would interpret."""
    return escape(clean(text), quote=False)


def plain(value: float) -> float | None:
    """Return a value that JSON can represent."""
    try:
        return value if isfinite(value) else None
    except OverflowError:  # an integer that is too large
        return None


def height_axis(values: Iterable[float | None], unit: str) -> dict[str, Any]:
    """Return an axis for values: linear from zero, or logarithmic if small values would vanish."""
    known = [value for value in values if value is not None]
    if not known or min(known) <= 0 or max(known) <= LINEAR_SPAN * min(known):
        return {"ticksuffix": f" {unit}", "rangemode": "tozero"}
    ticks = [digit * 10.0**power for power in range(*_powers(known)) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if min(known) / 2 <= tick <= max(known) * 2]
    tens = ticks if len(ticks) <= MOST_TICKS else [tick for tick in ticks if round(log10(tick), 6).is_integer()]
    marks = {"tickmode": "array", "tickvals": tens, "ticktext": [f"{tick:,.12g} {label(unit)}" for tick in tens]}
    return {"type": "log", **marks}


def _powers(values: Sequence[float]) -> tuple[int, int]:
    return floor(log10(min(values))), ceil(log10(max(values))) + 1


def over_steps(
    title: str,
    lines: Sequence[Line],
    *,
    marks: Iterable[tuple[float, str]] = (),
    note: str = "",
    tick: str = "",
    half: bool = False,
    from_zero: bool = False,
) -> Figure:
    """Return lines over steps, with marks (such as restarts) as vertical lines."""
    marks = sorted(marks)
    shapes, words = _marks(marks), _labels(marks, _reach(lines))
    axis: dict[str, Any] = {"rangemode": "tozero" if from_zero else "normal"}
    if tick:
        axis["tickformat"] = tick
    layout = {"xaxis": {"title": {"text": "step"}}, "yaxis": axis, "shapes": shapes}
    if not half:
        layout["annotations"] = words
    return Figure(
        title=title,
        traces=[_trace(line) for line in lines],
        layout=layout,
        note=note,
        half=half,
        height=240 if half else 300,
    )


def stack_figure(title: str, steps: Sequence[int], parts: Sequence[Line], *, note: str = "") -> Figure:
    """Return areas on top of each other, all at the same steps."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": label(part.name),
            "stackgroup": "parts",
            "x": list(steps),
            "y": [plain(value) for value in part.points.values],
            "line": {"width": 0, "color": part.colour},
            "fillcolor": part.colour,
        }
        for part in parts
    ]
    layout = {
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"rangemode": "tozero", "ticksuffix": " s"},
    }
    return Figure(title=title, traces=traces, layout=layout, note=note, height=340)


def bars(
    title: str,
    values: Sequence[Bar],
    *,
    scales: Sequence[tuple[float, str]],
    note: str = "",
    colour: str = COLOURS[0],
) -> Figure:
    """Return a bar for each value, with whiskers if there are any."""
    most = max((bar.value for bar in values if isfinite(bar.value)), default=0.0)
    unit, suffix = next((scale for scale in scales if most >= scale[0]), scales[-1])
    trace: dict[str, Any] = {
        "type": "bar",
        "x": [label(bar.name) for bar in values],
        "y": [plain(bar.value / unit) for bar in values],
        "marker": {"color": colour},
        "hovertemplate": f"%{{x}}: %{{y}}{suffix}<extra></extra>",
    }
    if any(bar.upper is not None for bar in values):
        reach = [max(0.0, bar.upper - bar.value) if bar.upper is not None else 0.0 for bar in values]
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [plain(distance / unit) for distance in reach],
            "arrayminus": [0] * len(reach),
            "color": "$ink",
            "thickness": 1,
        }
    layout = {
        "xaxis": {"type": "category", "title": {"text": "rank"}},
        "yaxis": {"rangemode": "tozero", "ticksuffix": suffix},
        "bargap": 0.35,
    }
    return Figure(title=title, traces=[trace], layout=layout, note=note, half=True, height=220)


def _trace(line: Line) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(line.points.steps) <= FEW_POINTS else "lines",
        "name": label(line.name),
        "x": list(line.points.steps),
        "y": [plain(value) for value in line.points.values],
        "line": {"color": line.colour, "width": 1.6, "dash": line.dash},
        "marker": {"size": 5, "color": line.colour},
    }


def _reach(lines: Iterable[Line]) -> tuple[float, float]:
    """Return the first and the last step of all lines."""
    steps = [step for line in lines for step in line.points.steps] or [0]
    return min(steps), max(steps)


def _marks(marks: Sequence[tuple[float, str]]) -> list[dict[str, Any]]:
    return [
        {
            "type": "line",
            "x0": at,
            "x1": at,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": "$muted", "width": 1, "dash": "dot"},
        }
        for at, _ in marks[:MOST_MARKS]
    ]


def _labels(marks: Sequence[tuple[float, str]], reach: tuple[float, float]) -> list[dict[str, Any]]:
    """Return a label for each mark, or one for several that are close; none covers another."""
    first, last = reach
    width = LABEL_SHARE * (last - first)
    groups: list[list[tuple[float, str]]] = []
    for mark in marks:
        if groups and mark[0] - groups[-1][-1][0] < width:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    labels = []
    free = first
    for group in groups:
        has_room = group[-1][0] <= last - width
        x = group[-1][0] if has_room else group[0][0]
        is_left = not has_room and x - width >= first
        labels.append(
            {
                "x": x,
                "yref": "paper",
                "y": 1,
                "yshift": -LABEL_HEIGHT if is_left and x - width < free else 0,
                "text": label(_count(word for _, word in group)),
                "showarrow": False,
                "xanchor": "right" if is_left else "left",
                "yanchor": "top",
            }
        )
        free = x + width
    return labels


def _count(words: Iterable[str]) -> str:
    """Return the words, each once, with how often it occurs: `2 restarts`."""
    return ", ".join(word if count == 1 else plural(count, word) for word, count in Counter(words).items())


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
    drawn = timeline.draw(series, timeline.start, timeline.end, POINTS)
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
