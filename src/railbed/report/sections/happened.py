"""What happened: the verdicts of `diagnose`, with their evidence."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.record import WRONG, Finding, Verdict
from railbed.present.groups import IN_BRIEF
from railbed.present.wording import join_names, moment, plural, seconds
from railbed.report.blocks import Block, Entries, Entry, Fold, ListBlock, MarkCell, TableBlock, TextBlock
from railbed.report.document import Headline, Section
from railbed.report.reading.run import RunData

MOST_PLACES = 4


def headline(run: RunData) -> Headline | None:
    """State what went wrong, and where."""
    wrong = _wrong(run)
    if not wrong:
        return None
    places = sorted({finding.subject for finding in wrong})
    where = join_names(places) if len(places) <= MOST_PLACES else f"{len(places)} places"
    failed = any(finding.verdict is Verdict.FAIL for finding in wrong)
    return Headline(f"something happened to {where}", "bad" if failed else "notice")


def show(run: RunData) -> Sequence[Block] | None:
    """Show each verdict with its evidence; what was fine or could not be judged is folded away."""
    if run.verdicts is None:
        return None
    return verdict_blocks(run.verdicts, TextBlock("Nothing unusual: no rule found anything to report."))


def verdict_blocks(verdicts: Sequence[Finding], fine: TextBlock) -> list[Block]:
    """Return what is wrong with its evidence, or that all is fine; then the rest, folded."""
    blocks: list[Block] = []
    for finding in verdicts:
        if finding.verdict not in IN_BRIEF:
            blocks.append(Entries([_entry(finding)]))
            if finding.evidence:
                blocks.append(ListBlock(finding.evidence))
    blocks = blocks or [fine]
    rest = [finding for finding in verdicts if finding.verdict in IN_BRIEF]
    if rest:
        rows = [(MarkCell(finding.verdict.value), finding.check, finding.subject, finding.observed) for finding in rest]
        title = plural(len(rest), "other finding")
        blocks.append(Fold(title, [TableBlock(("verdict", "rule", "subject", "observed"), rows)]))
    return blocks


def _wrong(run: RunData) -> list[Finding]:
    return [finding for finding in run.verdicts or () if finding.verdict in WRONG]


def _entry(finding: Finding) -> Entry:
    when = f", {_when(finding)}" if finding.since is not None else ""
    certainty = f" ({finding.certainty})" if finding.certainty else ""
    return Entry(
        mark=MarkCell(finding.verdict.value, "bad" if finding.verdict is Verdict.FAIL else "notice"),
        title=f"{finding.subject}: {finding.check}{when}",
        text=f"{finding.observed}{certainty}",
        detail=finding.why,
        advice=finding.remedy,
    )


def _when(finding: Finding) -> str:
    since = moment(finding.since or 0.0, "%H:%M:%S")
    if finding.until is None:
        return f"since {since}"
    if finding.until == finding.since:
        return f"at {since}"
    return f"{since}, for {seconds(finding.until - (finding.since or 0.0))}"


SECTION = Section(name="happened", title="What happened", order=8, show=show, headline=headline)
