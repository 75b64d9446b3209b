"""The last runs: what was done, and how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from railbed.model.private import scrub
from railbed.present.wording import moment
from railbed.report.blocks import Block, Cell, Code, MarkCell, TableBlock, TextBlock, duration
from railbed.report.document import Section
from railbed.report.handover.data import HandoverData
from railbed.report.sections.verdict import ENDED
from railbed.store import RunSummary

COLUMNS = ("run", "command", "began", "took", "ended", "failed")
MOST = 20


def show(data: HandoverData) -> Sequence[Block]:
    """Show the newest runs of this cluster."""
    if not data.runs:
        return [TextBlock(data.with_file(f"{data.runs_folder} has no run of this cluster: `railbed check` makes one."))]
    blocks: list[Block] = [TableBlock(COLUMNS, [_row(data, run) for run in data.runs[:MOST]], numbers=COLUMNS[3:4])]
    if len(data.runs) > MOST:
        blocks.append(TextBlock(f"{len(data.runs) - MOST} older runs: `railbed runs` lists all."))
    return blocks


def _row(data: HandoverData, run: RunSummary) -> tuple[Cell, ...]:
    words = scrub(shlex.join(["railbed", *run.arguments]).encode("utf-8", "replace")).decode("utf-8", "replace")
    tone = ENDED[run.status][1]
    status = run.status if run.exit in (None, 0) else f"{run.status}, exit {run.exit}"
    return (
        data.run_name(run.id),
        Code(words),
        moment(run.started),
        duration(max(0.0, run.ended - run.started)) if run.ended is not None else "",
        MarkCell(status, "notice" if tone == "good" and run.exit else tone),
        str(run.verdicts.get("fail", 0)) if run.verdicts else "",
    )


SECTION = Section(name="runs", title="Last runs", order=80, show=show)
