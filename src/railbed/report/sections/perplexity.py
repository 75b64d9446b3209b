"""Perplexity on text that was not trained on, before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from railbed.model.text import number
from railbed.present.wording import NOT_KNOWN
from railbed.report.blocks import Block, Cell, TableBlock, TextBlock, Value, share
from railbed.report.document import Headline, Section
from railbed.report.reading.run import RunData

NAME = "perplexity"
HELD_OUT = "held_out"
SPLITS = {HELD_OUT: "held-out text"}
COLUMNS = ("text", "before", "after", "after, of before")


def headline(run: RunData) -> Headline | None:
    """Compare the perplexity of held-out text."""
    before, after = (_value(run, HELD_OUT, when) for when in ("before", "after"))
    if before is None or after is None:
        return None
    if not (isfinite(before) and isfinite(after)):
        return Headline("the perplexity of held-out text was not a number", "bad")
    way = f"from {number(before)} to {number(after)}"
    if after < before:
        return Headline(f"the perplexity of held-out text fell {way}")
    return Headline(f"the perplexity of held-out text went {way}, so fine-tuning did not help there", "notice")


def show(run: RunData) -> Sequence[Block] | None:
    """Show one row for each kind of text."""
    splits = dict.fromkeys(str(entry.labels.get("split", "")) for entry in run.measurements if entry.name == NAME)
    rows: list[tuple[Cell, ...]] = []
    for split in splits:
        before, after = (_value(run, split, when) for when in ("before", "after"))
        ratio = share(after / before) if before and after and isfinite(after / before) else NOT_KNOWN
        rows.append((SPLITS.get(split, split), _cell(before), _cell(after), ratio))
    words = "The model is as uncertain about the next token as if it had to choose among so many equally likely ones."
    return [TableBlock(COLUMNS, rows, numbers=COLUMNS[1:]), TextBlock(words)] if rows else None


def _value(run: RunData, split: str, when: str) -> float | None:
    """Return the last value, since a run that was continued measures again."""
    labels = {"split": split, "when": when}
    matching = (
        entry.value
        for entry in reversed(run.measurements)
        if entry.name == NAME and labels.items() <= entry.labels.items()
    )
    return next(matching, None)


def _cell(value: float | None) -> Cell:
    return NOT_KNOWN if value is None else Value(value, "1", number(value))


SECTION = Section(
    name="perplexity",
    title="Before and after fine-tuning",
    order=22,
    show=show,
    headline=headline,
    methods={
        NAME: "e to the power of the mean cross-entropy of text that is not trained on, by the model as it was before "
        "the first step, and after the last",
    },
)
