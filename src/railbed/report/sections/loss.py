"""The loss over steps, with restarts as marks."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from railbed.model.text import number
from railbed.present.wording import plural
from railbed.report.blocks import Block, Figure, TextBlock
from railbed.report.document import Headline, Section
from railbed.report.figures import COLOURS, Line, over_steps
from railbed.report.reading.history import recipe, restarts
from railbed.report.reading.run import RunData
from railbed.report.reading.series import ends

FALLEN = 0.98
"""Less than this share of the first loss counts as fallen."""


def headline(run: RunData) -> Headline | None:
    """State the loss at the beginning and at the end."""
    if "loss" not in run.series:
        return None
    points = run.series["loss"].mean()
    if not points.steps:
        return None
    first, last = ends(points.values)
    steps_wanted = recipe(run).get("steps")
    made = points.steps[-1]
    complete = not isinstance(steps_wanted, int) or made >= steps_wanted
    steps = plural(made, "step") if complete else f"{made:,} of {steps_wanted:,} steps"
    if _missing(run) or not (isfinite(first) and isfinite(last)):
        return Headline(f"the loss was not a number in {steps}", "bad")
    way = f"from {number(first)} to {number(last)} in {steps}"
    if last < first * FALLEN:
        return Headline(f"the loss fell {way}", "good" if complete else "notice")
    return Headline(f"the loss went {way}, so it did not fall", "notice")


def show(run: RunData) -> Sequence[Block] | None:
    """Show training and validation loss, then learning rate and gradient norm."""
    if "loss" not in run.series:
        return None
    marks = [(restart.before.steps[1], "restart") for restart in restarts(run) if restart.before.steps]
    lines = [Line(name="training", points=run.series["loss"].mean(), colour=COLOURS[0])]
    if "validation_loss" in run.series:
        lines.append(Line(name="validation", points=run.series["validation_loss"].mean(), colour=COLOURS[1]))
    blocks: list[Block] = [over_steps("Loss, nat per token", lines, marks=marks, note=_note(run))]
    if missing := _missing(run):
        blocks.insert(0, TextBlock(f"{plural(missing, 'step')} have no loss: it was not a finite number."))
    for name, title in (("learning_rate", "Learning rate"), ("gradient_norm", "Gradient norm, before clipping")):
        if name in run.series:
            blocks.append(_small(run, name, title))
    return blocks


def _small(run: RunData, name: str, title: str) -> Figure:
    line = Line(name=title, points=run.series[name].mean(), colour=COLOURS[2])
    return over_steps(title, [line], half=True, from_zero=True)


def _note(run: RunData) -> str:
    again = sum(restart.steps_again or 0 for restart in restarts(run))
    return (
        f"{plural(again, 'step was', 'steps were')} repeated after restarts; the last values are drawn."
        if again
        else ""
    )


def _missing(run: RunData) -> int:
    """Return how many steps reported their time but no loss."""
    if "step_seconds" not in run.series:
        return 0
    return len(run.series["step_seconds"].history().keys() - run.series["loss"].history().keys())


SECTION = Section(
    name="loss",
    title="Loss",
    order=20,
    show=show,
    headline=headline,
    methods={
        "loss": "cross-entropy of the step's global batch, summed over all ranks by the same collective as the "
        "gradients; before the step's update",
        "validation_loss": "cross-entropy on text that is not trained on, over the same windows every time",
        "learning_rate": "the learning rate of the schedule",
        "gradient_norm": "of the summed gradient of all ranks, before clipping",
    },
)
