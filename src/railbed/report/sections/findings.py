"""What `check` found: by node, the worst first, with what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from railbed.model.record import Finding, Verdict
from railbed.report.blocks import Block, Entries, Entry, Fold, Heading, Mark, Table, Tone
from railbed.report.reading.run import RunData
from railbed.report.section import Headline, Section
from railbed.report.words import listed, plural

TONES: dict[Verdict, Tone] = {
    Verdict.FAIL: "bad",
    Verdict.UNKNOWN: "notice",
    Verdict.WARN: "notice",
    Verdict.SKIPPED: "quiet",
    Verdict.OK: "good",
}
COUNTED = {Verdict.FAIL: "failed", Verdict.WARN: "to look at"}
FINE = (Verdict.SKIPPED, Verdict.OK)


def headline(run: RunData) -> Headline | None:
    """Say how many findings failed, and where."""
    if not run.findings:
        return None
    failed = [finding for finding in run.findings if finding.verdict is Verdict.FAIL]
    if failed:
        where = sorted({_group(finding) for finding in failed})
        places = listed(where) if len(where) <= 4 else f"{len(where)} places"
        return Headline(f"{plural(len(failed), 'finding')} failed on {places}", "bad")
    open_ones = [finding for finding in run.findings if finding.verdict not in FINE]
    if open_ones:
        return Headline(f"{plural(len(open_ones), 'finding')} to look at", "notice")
    return _without_complaint(run.findings)


def _without_complaint(findings: Sequence[Finding]) -> Headline:
    """Say what is well; what was skipped was not judged, and is no part of it."""
    skipped = sum(finding.verdict is Verdict.SKIPPED for finding in findings)
    well = len(findings) - skipped
    if not well:
        return Headline(f"nothing was judged, {plural(skipped, 'finding')} skipped", "notice")
    text = f"{plural(well, 'finding')} {'is' if well == 1 else 'are'} well"
    return Headline(f"{text}, {skipped} skipped" if skipped else text)


def show(run: RunData) -> Sequence[Block] | None:
    """Show what is wrong, node by node; what is well is folded away."""
    if not run.findings:
        return None
    groups: dict[str, list[Finding]] = {}
    for finding in run.findings:
        groups.setdefault(_group(finding), []).append(finding)
    blocks: list[Block] = []
    for name, findings in sorted(groups.items(), key=lambda group: (_badness(group[1]), group[0])):
        findings.sort(key=lambda finding: (finding.verdict.rank, finding.check, finding.subject))
        blocks.append(Heading(name, _counted(findings)))
        wrong = [_entry(finding) for finding in findings if finding.verdict not in FINE]
        if wrong:
            blocks.append(Entries(wrong))
        rest = [finding for finding in findings if finding.verdict in FINE]
        if rest:
            blocks.append(Fold(_counted(rest), [_table(rest)]))
    return blocks


def _entry(finding: Finding) -> Entry:
    port = finding.subject.partition("/")[2]
    expected = f"expected {finding.expected}" if finding.expected else ""
    return Entry(
        mark=Mark(finding.verdict.value, TONES[finding.verdict]),
        title=f"{finding.check} on {port}" if port else finding.check,
        text="; ".join(part for part in (finding.observed, expected) if part),
        detail=finding.why,
        advice=finding.remedy,
    )


def _table(findings: Iterable[Finding]) -> Table:
    rows = [
        (Mark(finding.verdict.value, TONES[finding.verdict]), finding.check, finding.subject, finding.observed)
        for finding in findings
    ]
    return Table(("verdict", "rule", "subject", "observed"), rows)


def _group(finding: Finding) -> str:
    return finding.subject.partition("/")[0]


def _counted(findings: Iterable[Finding]) -> str:
    numbers = Counter(finding.verdict for finding in findings)
    return " · ".join(f"{numbers[one]} {COUNTED.get(one, one.value)}" for one in Verdict if numbers[one])


def _badness(findings: Iterable[Finding]) -> list[int]:
    numbers = Counter(finding.verdict for finding in findings)
    return [-numbers[verdict] for verdict in Verdict if verdict is not Verdict.OK]


SECTION = Section(name="findings", title="Findings", order=65, show=show, headline=headline)
