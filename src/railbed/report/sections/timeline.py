"""Loss, steps, network, switches and processors on one time axis, with marks for what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from railbed.present.charts import SUMMARIES, Chart
from railbed.present.wording import plural, seconds
from railbed.report.blocks import Block, Cell, Figure, Fold, MarkCell, TableBlock, TextBlock, Tone, duration
from railbed.report.document import Section
from railbed.report.figures import COLOURS, MOST_MARKS, label, plain
from railbed.report.reading.run import RunData

if TYPE_CHECKING:
    from railbed.report.figures import AxisLine
    from railbed.store.timeline import Mark as TimeMark
    from railbed.store.timeline import MarkKind, Timeline

MOST_LINES = 8
DRAWN_IN: Mapping[str, tuple[str, float]] = {
    "share": ("%", 100.0),
    "bit/s": ("Gb/s", 1e-9),
    "B": ("kB", 1e-3),
    "1/s": ("/s", 1.0),
    "cores": ("", 1.0),
}
"""Units on an axis, by that of the chart, and how many of them it is; all others are as they are."""
UNITS = ((7200.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
TONES: Mapping[MarkKind, Tone] = {"fault": "bad", "lost": "bad", "error": "bad", "restart": "notice", "pause": "notice"}
DRAWN: tuple[MarkKind, ...] = ("fault", "restart", "lost", "checkpoint", "gap", "clock", "traffic", "pause", "error")
"""Kinds of marks that are drawn; the table has all."""
FEW_ROWS, MOST_ROWS = 12, 100


def show(run: RunData) -> Sequence[Block] | None:
    """Show a chart for each kind of series that the run has, all with the same time axis, then what is marked."""
    timeline = run.timeline
    if timeline is None:
        return None
    from railbed.report.figures import lines_of  # numpy is slow to load, and many runs have no samples

    colours = _colours(timeline)
    factors = {chart.name: DRAWN_IN.get(chart.unit, ("", 1.0))[1] for chart in SUMMARIES}
    charts = [(chart, lines) for chart in SUMMARIES if (lines := lines_of(timeline, chart, factors[chart.name]))]
    if not charts:
        return None
    blocks: list[Block] = [TextBlock(_describe_samples(timeline))]
    blocks += [_figure(timeline, chart, lines, colours) for chart, lines in charts]
    marks = timeline.marks()
    if marks:
        rows = [_row(timeline, mark) for mark in marks[:MOST_ROWS]]
        more = f", the first {MOST_ROWS}" if len(marks) > MOST_ROWS else ""
        table = TableBlock(("after", "what", "where", ""), rows, numbers=("after",))
        blocks.append(table if len(rows) <= FEW_ROWS else Fold(f"{plural(len(marks), 'mark')}{more}", [table]))
    return blocks


def _describe_samples(timeline: Timeline) -> str:
    series = timeline.series()
    count = f"{plural(len(series), 'series', 'series')} of {plural(len({item.device for item in series}), 'device')}"
    return (
        f"{count} over {seconds(timeline.end - timeline.start)}, as read on nodes and switches; times are those of the "
        "machine that ran railbed. Counters are drawn as rates, without a value after a gap or a reset, with the "
        "lowest and the highest value of each interval. Vertical lines mark what happened; the table below names it."
    )


def _colours(timeline: Timeline) -> Mapping[str, str]:
    """Return a colour for each device, the same in every chart."""
    devices = sorted({series.device for series in timeline.series()})
    return {device: COLOURS[index % len(COLOURS)] for index, device in enumerate(devices)}


def _figure(timeline: Timeline, chart: Chart, lines: Sequence[AxisLine], colours: Mapping[str, str]) -> Figure:
    length = timeline.end - timeline.start
    divisor, unit = next((divisor, unit) for least, divisor, unit in UNITS if length >= least)
    shown = sorted(lines[:MOST_LINES], key=lambda line: line.device)
    shown_unit, _ = DRAWN_IN.get(chart.unit, (chart.unit, 1.0))
    note = "" if len(lines) <= MOST_LINES else f"The {MOST_LINES} of {len(lines)} devices with the highest values."
    layout = {
        # The same range and margin in every chart, so that the same time is at the same place.
        "xaxis": {"range": [0, plain(length / divisor)], "ticksuffix": f" {unit}"},
        "yaxis": {"rangemode": "tozero", "ticksuffix": f" {shown_unit}".rstrip(), "automargin": False, "nticks": 4},
        "margin": {"l": 72},
        "shapes": [_shape(mark, timeline.start, divisor) for mark in _drawn_marks(timeline)],
        "meta": "time",
    }
    traces = [_trace(line, colours[line.device], divisor) for line in shown]
    return Figure(title=chart.title, traces=traces, layout=layout, note=note, height=150)


def _trace(line: AxisLine, colour: str, divisor: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(line.device or "all"),
        "x": [plain(second / divisor) for second in line.seconds],
        "y": [plain(value) for value in line.values],
        "line": {"color": colour, "width": 1.3},
    }


def _drawn_marks(timeline: Timeline) -> Sequence[TimeMark]:
    return [mark for mark in timeline.marks() if mark.kind in DRAWN][:MOST_MARKS]


def _shape(mark: TimeMark, start: float, divisor: float) -> dict[str, Any]:
    at = plain((mark.time - start) / divisor)
    colour = f"${TONES.get(mark.kind, 'line')}"
    line = {"color": colour, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _row(timeline: Timeline, mark: TimeMark) -> tuple[Cell, Cell, Cell, Cell]:
    after = duration(max(0.0, mark.time - timeline.start))
    return (
        after,
        MarkCell(mark.kind, TONES.get(mark.kind, "quiet")),
        mark.subject,
        mark.text.removeprefix(f"{mark.subject}: "),
    )


SECTION = Section(name="timeline", title="On one time axis", order=35, show=show)
