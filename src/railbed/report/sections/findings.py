"""The findings of `check`: by node, the worst first, with remedies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from railbed.model.events import RecordingRead
from railbed.model.record import Finding, Verdict
from railbed.present.groups import IN_BRIEF, NameMask, PortGroup, count_verdicts, group_findings, group_of, port_groups
from railbed.present.wording import join_names, plural
from railbed.report.blocks import Block, Entries, Entry, Fold, Heading, MarkCell, TableBlock, Tone
from railbed.report.document import Headline, Section
from railbed.report.reading.run import RunData

TONES: dict[Verdict, Tone] = {
    Verdict.FAIL: "bad",
    Verdict.UNKNOWN: "notice",
    Verdict.WARN: "notice",
    Verdict.SKIPPED: "quiet",
    Verdict.OK: "good",
}


def headline(run: RunData) -> Headline | None:
    """State how many findings failed, and where."""
    if not run.findings:
        return None
    failed = [finding for finding in run.findings if finding.verdict is Verdict.FAIL]
    if failed:
        where = sorted({group_of(finding) for finding in failed})
        places = join_names(where) if len(where) <= 4 else f"{len(where)} places"
        return Headline(f"{plural(len(failed), 'finding')} failed on {places}", "bad")
    open_findings = [finding for finding in run.findings if finding.verdict not in IN_BRIEF]
    if open_findings:
        verb = "needs" if len(open_findings) == 1 else "need"
        return Headline(f"{plural(len(open_findings), 'finding')} {verb} attention", "notice")
    return _without_complaint(run.findings)


def _without_complaint(findings: Sequence[Finding]) -> Headline:
    """Count passed checks; skipped checks were not judged and do not count as passed."""
    skipped = sum(finding.verdict is Verdict.SKIPPED for finding in findings)
    passed = len(findings) - skipped
    if not passed:
        return Headline(f"nothing was judged, {plural(skipped, 'finding')} skipped", "notice")
    text = f"{plural(passed, 'finding')} passed"
    return Headline(f"{text}, {skipped} skipped" if skipped else text)


def show(run: RunData) -> Sequence[Block] | None:
    """Show what is wrong, node by node; passing checks are folded away."""
    if not run.findings or run.of(RecordingRead):  # verdicts about packets are shown with their evidence
        return None
    blocks: list[Block] = []
    for findings in group_findings(run.findings):
        blocks += [_heading(findings), *_open_entries(findings)]
        rest = [finding for finding in findings if finding.verdict in IN_BRIEF]
        if rest:
            blocks.append(Fold(count_verdicts(rest), [_table(rest)]))
    return blocks


def show_open(findings: Sequence[Finding]) -> Iterator[Block]:
    """Yield what needs attention, node by node."""
    for group in group_findings(findings):
        if entries := list(_open_entries(group)):
            yield _heading(group)
            yield from entries


def _heading(findings: Sequence[Finding]) -> Heading:
    return Heading(group_of(findings[0]), count_verdicts(findings))


def _open_entries(findings: Sequence[Finding]) -> Iterator[Entries]:
    alone = [(finding,) for finding in findings if finding.verdict not in IN_BRIEF]
    if alone:
        yield Entries([_entry(group) for group in port_groups(alone, NameMask(None))])


def _entry(group: PortGroup) -> Entry:
    finding = group.finding
    expected = f"expected {finding.expected}" if finding.expected else ""
    return Entry(
        mark=MarkCell(finding.verdict.value, TONES[finding.verdict]),
        title=f"{finding.check} on {group.ports}" if group.ports else finding.check,
        text="; ".join(part for part in (group.text, expected) if part),
        detail=finding.why,
        advice=f"{finding.remedy} ({group.likewise})" if group.likewise else finding.remedy,
    )


def _table(findings: Iterable[Finding]) -> TableBlock:
    rows = [
        (MarkCell(finding.verdict.value, TONES[finding.verdict]), finding.check, finding.subject, finding.observed)
        for finding in findings
    ]
    return TableBlock(("verdict", "rule", "subject", "observed"), rows)


SECTION = Section(name="findings", title="Findings", order=65, show=show, headline=headline)
