"""What the packets prove: the verdicts of `capture`, each with the packets to open in Wireshark."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.events import RecordingRead
from railbed.report.blocks import Block, TextBlock
from railbed.report.document import Section
from railbed.report.reading.run import RunData
from railbed.report.sections.happened import verdict_blocks

FINE = "Nothing is wrong: no rule found anything to report in these packets."


def show(run: RunData) -> Sequence[Block] | None:
    """Show each verdict with its evidence; what was fine or could not be judged is folded away."""
    if not run.of(RecordingRead) or not run.findings:
        return None
    return verdict_blocks(run.findings, TextBlock(FINE))


SECTION = Section(name="packets_verdicts", title="What the packets prove", order=11, show=show)
