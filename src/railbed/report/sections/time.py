"""The parts of a step's time: data, forward, backward, waiting for the network, optimiser."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.statistics import median
from railbed.present.wording import percent, seconds
from railbed.report.blocks import Block, TableBlock, TextBlock, duration, share
from railbed.report.document import Section
from railbed.report.figures import Line, stack_figure
from railbed.report.reading.run import RunData
from railbed.report.reading.series import Points

PARTS = {
    "data_seconds": ("data", "$c4"),
    "forward_seconds": ("forward", "$c1"),
    "backward_seconds": ("backward", "$c3"),
    "allreduce_exposed_seconds": ("exposed all-reduce", "$c5"),
    "optimiser_seconds": ("optimiser", "$c2"),
    "other_seconds": ("other", "$c6"),
}
REST = ("not accounted for", "$muted")
FAR_OUT = 10
"""Times the median: a step that compiles or starts something, which would dwarf all others in the plot."""


def show(run: RunData) -> Sequence[Block] | None:
    """Show the parts as stacked areas and as shares."""
    parts = {name: titles for name, titles in PARTS.items() if name in run.series}
    if not parts or "step_seconds" not in run.series:
        return None
    total, left_out = _usual(run.series["step_seconds"].mean())
    lines = [
        Line(name=title, colour=colour, points=_at(run.series[name].mean(), total.steps))
        for name, (title, colour) in parts.items()
    ]
    lines = [line for line in lines if any(line.points.values)]
    rest = _rest(total, lines)
    total_seconds = sum(total.values)
    if total_seconds and sum(rest.values) > 0.005 * total_seconds:
        lines.append(Line(name=REST[0], colour=REST[1], points=rest))
    middles = {title: run.series[name].typical().middle for name, (title, _) in parts.items()}
    middles[REST[0]] = median(rest.values)
    rows = [
        (
            line.name,
            duration(middles[line.name]),
            share(sum(line.points.values) / total_seconds if total_seconds else 0.0),
        )
        for line in lines
    ]
    rows.append(("whole step", duration(run.series["step_seconds"].typical().middle), share(1.0)))
    columns = ("part", "median", "share")
    return [
        *_in_words(lines, total_seconds),
        *_list_omitted(left_out),
        stack_figure("Seconds of a step, mean over its ranks", total.steps, lines),
        TableBlock(columns, rows, numbers=columns[1:]),
    ]


def _in_words(lines: Sequence[Line], total_seconds: float) -> list[Block]:
    for line in lines:
        if line.name == PARTS["allreduce_exposed_seconds"][0] and total_seconds:
            waited = percent(sum(line.points.values) / total_seconds)
            return [TextBlock(f"For {waited} of the time the ranks only waited for the sum of the gradients.")]
    return []


def _usual(total: Points) -> tuple[Points, Points]:
    """Return the usual steps, and those that took many times as long."""
    most = FAR_OUT * median(total.values)
    far = {step for step, value in zip(total.steps, total.values, strict=True) if value > most}
    return _at(total, [step for step in total.steps if step not in far]), _at(total, sorted(far))


def _list_omitted(far: Points) -> list[Block]:
    if not far.steps:
        return []
    steps = f"step {far.steps[0]}" if len(far.steps) == 1 else f"{len(far.steps)} steps"
    together = seconds(sum(far.values))
    text = f"Not drawn: {steps}, {FAR_OUT} times as long as most or longer ({together}), because a start compiles."
    return [TextBlock(text)]


def _at(points: Points, steps: Sequence[int]) -> Points:
    """Return the values at these steps; a part that was not reported took no time."""
    known = dict(zip(points.steps, points.values, strict=True))
    return Points(steps, [known.get(step, 0.0) for step in steps])


def _rest(total: Points, lines: Sequence[Line]) -> Points:
    sums = [sum(line.points.values[index] for line in lines) for index in range(len(total.values))]
    return Points(
        total.steps,
        [max(0.0, step_seconds - part_seconds) for step_seconds, part_seconds in zip(total.values, sums, strict=True)],
    )


SECTION = Section(
    name="time",
    title="Where the time goes",
    order=40,
    show=show,
    methods={
        "step_seconds": "on each rank, from the end of the step before to the end of this one; on a GPU by events on "
        "its stream",
        "data_seconds": "building the micro-batches and copying them to the device",
        "forward_seconds": "forward passes of all micro-batches",
        "backward_seconds": "backward passes, until the last bucket of gradients was full; sums that run meanwhile are "
        "hidden in it",
        "allreduce_exposed_seconds": "from the last full bucket until all sums were complete: no computation hides it",
        "optimiser_seconds": "clipping and the optimiser's update",
        "other_seconds": "between two steps: accounting, copying the state for a checkpoint",
    },
)
