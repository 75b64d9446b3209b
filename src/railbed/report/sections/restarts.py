"""What failed on the way, who, why and when, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from railbed.report.blocks import Block, Cell, Entries, Entry, Figure, Mark, Table, Text
from railbed.report.figures import label, plain
from railbed.report.reading.history import Generation, Restart, generations, lost_seconds, restarts
from railbed.report.reading.run import RunData
from railbed.report.section import Headline, Section
from railbed.report.values import duration
from railbed.report.words import listed, plural, seconds

MOST_TOLD = 50
MOST_LANES = 40
UNITS = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))


def headline(run: RunData) -> Headline | None:
    """Say how many restarts there were."""
    found = restarts(run)
    if not found:
        return None
    lost, is_least = lost_seconds(found)
    least = "at least " if is_least else ""
    return Headline(f"it restarted {_times(len(found))} and lost {least}{seconds(lost)} by it", "notice")


def show(run: RunData) -> Sequence[Block] | None:
    """Show the generations on a time axis, each restart in words, and a table."""
    found = generations(run)
    if not found:
        return None
    blocks: list[Block] = []
    failed = restarts(run)
    if failed:
        blocks.append(Entries([_entry(run, one) for one in failed[:MOST_TOLD]]))
        if len(failed) > MOST_TOLD:
            blocks.append(Text(f"The other {len(failed) - MOST_TOLD} restarts stand in the table below."))
    elif len(found) == 1:
        blocks.append(Text("Nothing was restarted."))
    blocks.append(_timeline(run, found))
    columns = ("generation", "nodes", "began", "lasted", "steps", "ended")
    blocks.append(Table(columns, [_row(run, one) for one in found], numbers=("generation", "began", "lasted")))
    return blocks


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _entry(run: RunData, one: Restart) -> Entry:
    title = listed(node for node, _ in one.before.cut) or one.who or "restart"
    return Entry(
        mark=Mark(f"after {seconds(max(0.0, one.time - run.summary.started))}", "notice"),
        title=title,
        text=one.before.reason.removeprefix(f"{title}: "),
        detail=_cost(one),
    )


def _cost(one: Restart) -> str:
    if one.after is None:
        return "Nothing went on after this."
    where = f" on {listed(one.after.nodes)}" if one.after.nodes else ""
    state = f", from the state of step {one.after.resumed_from:,}" if one.after.resumed_from is not None else ""
    went_on = f"Training continued{where}{state}"
    if one.seconds is None:
        return f"{went_on}; it restarted once more before it got any further, and what both cost stands there."
    if one.is_least:
        again = f"; {plural(one.steps_again, 'step was', 'steps were')} done again" if one.steps_again else ""
        return f"{went_on}, {seconds(one.seconds)} after it was noticed{again}."
    return f"{went_on}. {seconds(one.seconds)} were lost: {_parts(one)}."


def _parts(one: Restart) -> str:
    """Return what the lost time was lost with."""
    told = one.after.caught_up if one.after else {}
    spent = {name: float(told.get(f"{name}_seconds", 0.0)) for name in ("unnoticed", "stopped", "again")}
    parts = [f"{seconds(spent['unnoticed'])} until it was noticed", f"{seconds(spent['stopped'])} until the next step"]
    steps = int(told.get("steps_again", 0))
    return listed([*parts, *([f"{seconds(spent['again'])} for {plural(steps, 'step')} again"] if steps else [])])


def _row(run: RunData, one: Generation) -> tuple[Cell, Cell, Cell, Cell, Cell, Cell]:
    ended = "done" if one.done else one.reason or "no end was told"
    return (
        str(one.number),
        ", ".join(one.nodes),
        duration(max(0.0, one.start - run.summary.started)),
        duration(max(0.0, one.end - one.start)) if one.end else "",
        f"{one.steps[0]:,} to {one.steps[1]:,}" if one.steps else "none",
        ended,
    )


def _timeline(run: RunData, found: Sequence[Generation]) -> Figure:
    """One lane for each node; bars are generations, and what lies between them is time lost."""
    begin = run.summary.started
    length = max((one.end or one.start) - begin for one in found)
    divisor, unit = next((divisor, unit) for least, divisor, unit in UNITS if length >= least)
    nodes = list(dict.fromkeys(node for one in found for node in one.nodes))[:MOST_LANES]
    traces = [_bars(one, nodes, begin, divisor) for one in found]
    saved = [event for event in run.told("checkpoint") if event.subject in nodes]
    if saved:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "checkpoint",
                "y": [label(event.subject) for event in saved],
                "x": [plain((event.time - begin) / divisor) for event in saved],
                "text": [label(event.message) for event in saved],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"symbol": "diamond", "size": 7, "color": "$ink"},
            }
        )
    layout = {
        "barmode": "overlay",
        "bargap": 0.5,
        "xaxis": {"title": {"text": f"{unit} since the start"}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }
    note = "Bars are generations; between them the ranks were stopped and started again."
    note += " Diamonds are checkpoints." if saved else ""
    return Figure(
        title="Generations by node", traces=traces, layout=layout, note=note, height=80 + 40 * max(1, len(nodes))
    )


def _bars(one: Generation, nodes: Sequence[str], begin: float, divisor: float) -> dict[str, Any]:
    taking_part = [node for node in nodes if node in one.nodes]
    lasted = (one.end or one.start) - one.start
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"generation {one.number}",
        "y": [label(node) for node in taking_part],
        "base": [plain((one.start - begin) / divisor)] * len(taking_part),
        "x": [plain(lasted / divisor)] * len(taking_part),
        "marker": {"color": "$c1" if one.number % 2 else "$c3"},
        "hovertemplate": f"generation {one.number}: {seconds(max(0.0, lasted))}<extra></extra>",
        "showlegend": False,
    }


SECTION = Section(name="restarts", title="Generations and restarts", order=60, show=show, headline=headline)
