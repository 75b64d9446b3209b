"""The measurements of `bench`: a table, bandwidth and latency over size, and a heat map of the pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from railbed.model.statistics import median
from railbed.present.bench import SHOWN, MeasurementGroup, groups, message_size
from railbed.present.wording import natural_order, plural
from railbed.report.blocks import Block, Cell, Figure, TableBlock, bare, count
from railbed.report.document import Headline, Section
from railbed.report.figures import COLOURS, height_axis, label, plain
from railbed.report.reading.run import RunData

COLUMNS = ("test", "how", "over", "size", "paths", "lowest", "median", "highest", "unit", "measure", "tool")
NUMBERS = ("size", "paths", "lowest", "median", "highest")
PERCENTILES = ("min", "p50", "p90", "p99", "p99.9", "p99.99", "max")
FEWEST_NODES = 3
MOST_MAPS = 8
MOST_TICKS = 7
MOST_WRITTEN = 8
"""With more nodes, a heat map has no space for numbers."""
SPAN = 0.8


def headline(run: RunData) -> Headline | None:
    """State how much was measured."""
    measured_groups = groups(run.measurements)
    count = sum(len(group.paths) for group in measured_groups)
    return Headline(plural(count, "number was measured", "numbers were measured")) if measured_groups else None


def show(run: RunData) -> Sequence[Block] | None:
    """Show all numbers, then the plots that have enough numbers."""
    measured_groups = groups(run.measurements)
    if not measured_groups:
        return None
    blocks: list[Block] = [TableBlock(COLUMNS, [_row(group) for group in measured_groups], numbers=NUMBERS)]
    blocks += _over_size(measured_groups)
    blocks += list(_heat_maps(measured_groups))[:MOST_MAPS]
    blocks += _distributions(run)
    return blocks


def _row(group: MeasurementGroup) -> tuple[Cell, ...]:
    of = group.summary
    return (
        group.test,
        group.how,
        group.over,
        message_size(group.size),
        count(of.paths),
        bare(of.lowest, group.unit),
        bare(of.median, group.unit),
        bare(of.highest, group.unit),
        group.unit,
        SHOWN[group.measure],
        group.tool,
    )


def _over_size(measured_groups: Sequence[MeasurementGroup]) -> Iterator[Figure]:
    """Yield a plot for each measure with several sizes."""
    for measure, name in SHOWN.items():
        lines: dict[str, list[MeasurementGroup]] = {}
        for group in measured_groups:
            if group.measure == measure and group.size is not None:
                lines.setdefault(group.title, []).append(group)
        lines = {title: several for title, several in lines.items() if len(several) > 1}
        if lines:
            drawn = [group for several in lines.values() for group in several]
            heights = height_axis([group.summary.median for group in drawn], drawn[0].unit)
            note = "The median of all paths" + ("; both axes are logarithmic." if "type" in heights else ".")
            yield Figure(
                title=f"{name[0].upper()}{name[1:]} over size",
                traces=[_line(title, several, at) for at, (title, several) in enumerate(lines.items())],
                layout={"xaxis": _sizes({group.size or 1 for group in drawn}), "yaxis": heights},
                note=note,
            )


def _sizes(sizes: Iterable[int]) -> dict[str, Any]:
    """Return an axis of message sizes, with ticks at the measured sizes, written as in a suite."""
    ordered = sorted(sizes)
    marked = ordered[:: -(-len(ordered) // MOST_TICKS)]
    return {
        "type": "log",
        "tickmode": "array",
        "tickvals": marked,
        "ticktext": [message_size(size) for size in marked],
        "title": {"text": "message"},
    }


def _line(title: str, several: Sequence[MeasurementGroup], at: int) -> dict[str, Any]:
    ordered = sorted(several, key=lambda group: group.size or 0)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(title),
        "x": [group.size for group in ordered],
        "y": [plain(group.summary.median) for group in ordered],
        "line": {"color": COLOURS[at % len(COLOURS)], "width": 1.6},
        "marker": {"size": 5, "color": COLOURS[at % len(COLOURS)]},
    }


def _heat_maps(measured_groups: Sequence[MeasurementGroup]) -> Iterator[Figure]:
    """Yield heat maps of all pairs, if there are enough nodes to compare."""
    for group in measured_groups:
        nodes = sorted({node for path in group.paths for node in path if path[1]}, key=natural_order)
        if len(nodes) < FEWEST_NODES:
            continue
        cells = [
            [
                plain(median(group.paths[source, target])) if (source, target) in group.paths else None
                for target in nodes
            ]
            for source in nodes
        ]
        trace = _heat_map(group, [label(node) for node in nodes], cells)
        sized = f", {message_size(group.size)}" if group.size is not None else ""
        yield Figure(
            title=f"{group.title}{sized}: {SHOWN[group.measure]} in {group.unit}",
            traces=[trace],
            layout={
                "xaxis": {"title": {"text": "to"}, "type": "category"},
                "yaxis": {"title": {"text": "from"}, "type": "category", "autorange": "reversed"},
            },
            note="Bright is good. The scale spans at least a fifth, so that noise does not look like a difference.",
            half=True,
            height=300,
        )


def _heat_map(group: MeasurementGroup, names: Sequence[str], cells: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    least, most = group.summary.lowest, group.summary.highest
    is_latency = group.measure.endswith("round_trip")
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": cells,
        "zmin": least if is_latency else min(least, SPAN * most),
        "zmax": max(most, least / SPAN) if is_latency else most,
        "colorscale": "Viridis",
        "reversescale": is_latency,
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": f"%{{y}} to %{{x}}: %{{z}} {label(group.unit)}<extra></extra>",
    }
    return {**trace, "texttemplate": "%{z:,.3r}"} if len(names) <= MOST_WRITTEN else trace


def _distributions(run: RunData) -> list[Figure]:
    """Return the latencies by percentile; the median of all paths."""
    traces: list[dict[str, Any]] = []
    by_stat = {stat: {_key(group): group for group in groups(run.measurements, (stat,))} for stat in PERCENTILES}
    for at, (key, group) in enumerate(by_stat["p50"].items()):
        medians = {stat: by_key[key].summary.median for stat, by_key in by_stat.items() if key in by_key}
        if group.measure.endswith("round_trip") and len(medians) > 2:
            colour = COLOURS[at % len(COLOURS)]
            sized = f", {message_size(group.size)}" if group.size is not None else ""
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": label(f"{group.title}{sized} ({SHOWN[group.measure]})"),
                    "x": list(medians),
                    "y": [plain(value) for value in medians.values()],
                    "line": {"color": colour, "width": 1.6},
                    "marker": {"size": 5, "color": colour},
                }
            )
    if not traces:
        return []
    layout = {
        "xaxis": {"type": "category", "categoryarray": list(PERCENTILES)},
        "yaxis": height_axis([value for trace in traces for value in trace["y"]], "µs"),
    }
    note = "Percentiles of the single samples; the median of all paths."
    return [Figure(title="Latency by percentile", traces=traces, layout=layout, note=note)]


def _key(group: MeasurementGroup) -> tuple[str, str, int | None, str, str]:
    return group.test, group.measure, group.size, group.over, group.how


SECTION = Section(
    name="measured",
    title="What was measured",
    order=10,
    show=show,
    headline=headline,
    methods={
        "bandwidth": "perftest: mean over the test, in 10⁹ bits; iperf3: the receiver's count",
        "half_round_trip": "half of a message's round trip: perftest's writes and sends, sockperf",
        "round_trip": "the full round trip: perftest's reads, ping",
        "cpu_seconds": "time that all processors of the node were busy while the tool ran, from /proc/stat",
        "cpu_seconds_per_gb": "that time per gigabyte",
        "bus_bandwidth": "algorithm bandwidth times nccl-tests' factor: comparable with the speed of a link",
        "algorithm_bandwidth": "bytes of the largest buffer over the time of the slowest rank",
        "disk_bandwidth": "fio on an unlinked file, bypassing the page cache if the disk supports it",
    },
)
