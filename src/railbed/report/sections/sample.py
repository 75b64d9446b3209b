"""What the trained model writes."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.report.blocks import Block, Listing, Text
from railbed.report.reading.run import RunData
from railbed.report.section import Section
from railbed.report.words import plural


def show(run: RunData) -> Sequence[Block] | None:
    """Show the last sample."""
    for event in reversed(run.told("sample")):
        step = event.data.get("step")
        after = f" after step {step:,}" if isinstance(step, int) else ""
        match event.data:
            case {"text": str(text)} if text:
                return [Text(f"Text made by the model{after}, the prompt with it:"), Listing(text, wrapped=True)]
            case {"tokens": [*tokens]} if tokens:
                return [Text(f"The model made {plural(len(tokens), 'token')}{after}; they were not turned into text.")]
    return None


SECTION = Section(name="sample", title="A sample", order=80, show=show)
