"""The state of the newest check: what is wrong, with its remedy, and how much passed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from railbed.model.private import scrub
from railbed.present.groups import count_verdicts
from railbed.present.wording import moment, seconds
from railbed.report.blocks import Block, TextBlock
from railbed.report.document import Headline, Section
from railbed.report.handover.data import HandoverData
from railbed.report.sections import findings


def headline(data: HandoverData) -> Headline:
    """State what the check concluded."""
    concluded = findings.headline(data.check) if data.check else None
    return concluded or Headline("nothing was checked yet", "notice")


def show(data: HandoverData) -> Sequence[Block]:
    """Show the findings of the newest check that need attention."""
    if data.check is None:
        return [TextBlock(data.with_file("Nothing was checked yet: `railbed check` reads and judges every device."))]
    return [TextBlock(_about(data)), *findings.show_open(data.check.findings)]


def _about(data: HandoverData) -> str:
    assert data.check is not None
    summary, counts = data.check.summary, count_verdicts(data.check.findings) or "no findings"
    if data.recording is not None:
        return f"As the recording {data.recording} shows it: {counts}."
    command = scrub(shlex.join(["railbed", *summary.arguments]).encode("utf-8", "replace")).decode("utf-8", "replace")
    age = seconds(max(0.0, data.made - summary.started))
    return f"`{command}` ({data.run_name(summary.id)}) of {moment(summary.started)}, {age} before this page: {counts}."


SECTION = Section(name="state", title="State", order=20, show=show, headline=headline)
