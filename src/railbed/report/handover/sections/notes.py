"""What people wrote beside the cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.report.blocks import Block, TextBlock
from railbed.report.document import Section
from railbed.report.handover import notes
from railbed.report.handover.data import HandoverData


def show(data: HandoverData) -> Sequence[Block]:
    """Show the notes, or where to write them."""
    if data.notes:
        return [TextBlock(f"From {data.notes_file}, which railbed never changes."), *notes.blocks_of(data.notes)]
    if data.notes_file is None:
        return [TextBlock("Notes are written beside a cluster file, as `NAME.notes.md`.")]
    return [TextBlock(f"Nobody has written any: what you write in {data.notes_file} is shown here.")]


SECTION = Section(name="notes", title="Notes", order=30, show=show)
