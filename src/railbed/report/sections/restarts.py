"""What failed, on which node, why and when, and the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from railbed.model.events import CheckpointSaved
from railbed.model.record import Finding
from railbed.present.changed import describe_change
from railbed.present.wording import join_names, plural, seconds
from railbed.report.blocks import Block, Cell, Entries, Entry, Figure, MarkCell, TableBlock, TextBlock, duration
from railbed.report.document import Headline, Section
from railbed.report.figures import label, plain
from railbed.report.reading.history import GenerationHistory, Restart, generations, lost_seconds, restarts
from railbed.report.reading.run import RunData
from railbed.store.run import Status

MOST_DESCRIBED = 50
MOST_LANES = 40
UNFINISHED: Mapping[Status, str] = {"stopped": "the run was stopped", "running": "in progress"}
"""How the last generation ended if nothing was recorded about it."""
UNITS = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))


def headline(run: RunData) -> Headline | None:
    """State how many restarts there were."""
    all_restarts = restarts(run)
    if not all_restarts:
        return None
    lost, is_least = lost_seconds(all_restarts)
    least = "at least " if is_least else ""
    return Headline(f"it restarted {_times(len(all_restarts))} and lost {least}{seconds(lost)}", "notice")


def show(run: RunData) -> Sequence[Block] | None:
    """Show the generations on a time axis, a description of each restart, and a table."""
    all_generations = generations(run)
    if not all_generations:
        return None
    blocks: list[Block] = []
    failed = restarts(run)
    if failed:
        blocks.append(Entries([_entry(run, generation) for generation in failed[:MOST_DESCRIBED]]))
        if len(failed) > MOST_DESCRIBED:
            others = plural(len(failed) - MOST_DESCRIBED, "other restart is", "other restarts are")
            blocks.append(TextBlock(f"{others} in the table below."))
    elif len(all_generations) == 1:
        blocks.append(TextBlock("Nothing was restarted."))
    blocks.append(_timeline(run, all_generations))
    columns = ("generation", "nodes", "began", "lasted", "steps", "ended")
    blocks.append(
        TableBlock(
            columns,
            [_row(run, generation) for generation in all_generations],
            numbers=("generation", "began", "lasted"),
        )
    )
    return blocks


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _entry(run: RunData, restart: Restart) -> Entry:
    title = join_names(node for node, _ in restart.before.cut) or restart.who or "restart"
    return Entry(
        mark=MarkCell(f"after {seconds(max(0.0, restart.time - run.summary.started))}", "notice"),
        title=title,
        text=restart.before.reason.removeprefix(f"{title}: "),
        detail=_cost(restart),
        advice=_changes(restart.before.changes),
    )


def _changes(changes: Sequence[Finding]) -> str:
    """Return what had changed on the nodes since the launch, and what to do about it."""
    if not changes:
        return ""
    remedies = "; ".join(dict.fromkeys(finding.remedy for finding in changes if finding.remedy))
    listing = "; ".join(map(describe_change, changes))
    return f"Changed since the launch: {listing}. {remedies}".rstrip()


def _cost(restart: Restart) -> str:
    if restart.after is None:
        return "Training did not continue after this."
    where = f" on {join_names(restart.after.nodes)}" if restart.after.nodes else ""
    state = f", from the state of step {restart.after.resumed_from:,}" if restart.after.resumed_from is not None else ""
    went_on = f"Training continued{where}{state}"
    if restart.seconds is None:
        return f"{went_on}; it restarted again before it caught up; the next entry has the cost of both."
    if restart.is_least:
        again = f"; {plural(restart.steps_again, 'step was', 'steps were')} repeated" if restart.steps_again else ""
        return f"{went_on}, {seconds(restart.seconds)} after it was noticed{again}."
    return f"{went_on}. {seconds(restart.seconds)} were lost: {_parts(restart)}."


def _parts(restart: Restart) -> str:
    """Return the parts of the lost time."""
    cost = restart.after.caught_up if restart.after else None
    if cost is None:
        return ""
    parts = [
        f"{seconds(cost.unnoticed_seconds)} until it was noticed",
        f"{seconds(cost.stopped_seconds)} until the next step",
    ]
    if cost.steps_again:
        parts.append(f"{seconds(cost.again_seconds)} to repeat {plural(cost.steps_again, 'step')}")
    return join_names(parts)


def _row(run: RunData, generation: GenerationHistory) -> tuple[Cell, Cell, Cell, Cell, Cell, Cell]:
    ended = (
        "done" if generation.done else generation.reason or UNFINISHED.get(run.summary.status, "no end was recorded")
    )
    return (
        str(generation.number),
        ", ".join(generation.nodes),
        duration(max(0.0, generation.start - run.summary.started)),
        duration(_end(generation) - generation.start) if generation.end else "",
        f"{generation.steps[0]:,} to {generation.steps[1]:,}" if generation.steps else "none",
        ended,
    )


def _end(generation: GenerationHistory) -> float:
    """Return when a generation ended; its start if that is not known."""
    return max(generation.start, generation.end or generation.start)


def _timeline(run: RunData, all_generations: Sequence[GenerationHistory]) -> Figure:
    """One lane for each node; bars are generations, and the gaps between them are lost time."""
    begin = min(run.summary.started, all_generations[0].start)
    length = max(_end(generation) - begin for generation in all_generations)
    divisor, unit = next((divisor, unit) for least, divisor, unit in UNITS if length >= least)
    nodes = list(dict.fromkeys(node for generation in all_generations for node in generation.nodes))[:MOST_LANES]
    traces = [_bars(generation, nodes, begin, divisor) for generation in all_generations]
    saved = [event for event in run.of(CheckpointSaved) if event.subject in nodes]
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


def _bars(generation: GenerationHistory, nodes: Sequence[str], begin: float, divisor: float) -> dict[str, Any]:
    taking_part = [node for node in nodes if node in generation.nodes]
    lasted = _end(generation) - generation.start
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"generation {generation.number}",
        "y": [label(node) for node in taking_part],
        "base": [plain((generation.start - begin) / divisor)] * len(taking_part),
        "x": [plain(lasted / divisor)] * len(taking_part),
        "marker": {"color": "$c1" if generation.number % 2 else "$c3"},
        "hovertemplate": f"generation {generation.number}: {seconds(lasted)}<extra></extra>",
        "showlegend": False,
    }


SECTION = Section(name="restarts", title="Generations and restarts", order=60, show=show, headline=headline)
