"""Two runs as one document: the numbers that changed, the settings that differ, and what only one of them has."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.record import Finding, Verdict
from railbed.present.wording import JOIN, moment, plural, seconds
from railbed.report.blocks import (
    Block,
    Cell,
    Code,
    Entries,
    Entry,
    Facts,
    Fold,
    MarkCell,
    TableBlock,
    TextBlock,
    Tone,
    Value,
    count,
    show_with_unit,
)
from railbed.report.compare.changes import change_in_words, changes, own_labels
from railbed.report.compare.comparison import (
    CONFIDENCE,
    FEW,
    LEAST,
    LEAST_SAMPLES,
    MOST_BLOCKS,
    SAME,
    Changed,
    RunComparison,
)
from railbed.report.compare.settings import Lone, command
from railbed.report.document import Headline, Report, ReportSection
from railbed.report.reading.run import RunData
from railbed.report.sections.findings import TONES

TONE_WORDS = {"bad": "Worse", "notice": "Changed", "good": "Unchanged", "quiet": "Inconclusive"}
COLUMNS = ("measure", "of", "before", "after", "change", "chance", "samples")
NUMBERS = COLUMNS[2:]
MOST_ROWS = 500
MOST_NAMED = 8
SECOND_HALF = "second half of the steps"


def describe_both(before: RunData, after: RunData, comparison: RunComparison) -> Report:
    """Return a report about the differences between two runs."""
    verdict = _verdict(comparison)
    parts = (
        ("short", "In short", _short(before, after, comparison)),
        ("numbers", "Numbers that changed", _list_changed(comparison)),
        ("unclear", "Numbers that are inconclusive", _unclear(comparison)),
        ("settings", "Settings that differ", _settings(comparison)),
        ("lone", "Only in one run", _lone(comparison)),
        ("findings", "Findings that changed", _findings(comparison)),
        ("cluster", "The cluster between them", _cluster(comparison)),
        ("unchanged", "Numbers that did not change", _list_unchanged(comparison)),
        ("runs", "The two runs", [_runs(before, after)]),
        ("method", "How they were compared", [TextBlock(_method())]),
    )
    return Report(
        title=f"{before.summary.id} and {after.summary.id}",
        over="railbed compare: " + " and ".join(map(_name_run, (before, after))),
        verdict=verdict,
        tone_word=TONE_WORDS[verdict.tone],
        parts=[ReportSection(name, title, blocks) for name, title, blocks in parts if blocks],
    )


def _name_run(run: RunData) -> str:
    return f"{run.summary.verb} on {run.summary.cluster}, {moment(run.summary.started)}"


def _verdict(comparison: RunComparison) -> Headline:
    words = [comparison.in_short()]
    if comparison.settings:
        words.append(plural(len(comparison.settings), "setting differs", "settings differ"))
    if comparison.findings:
        words.append(plural(len(comparison.findings), "finding differs", "findings differ"))
    if comparison.cluster:
        words.append(
            plural(len(comparison.cluster), "key of the cluster file changed", "keys of the cluster file changed")
        )
    differs = (
        comparison.changed
        or comparison.findings
        or comparison.cluster
        or any(setting.key != "command" for setting in comparison.settings)
    )
    tone: Tone = "notice" if differs else "quiet" if comparison.unclear else "good"
    if any(_got_worse(*pair) for pair in comparison.findings):
        tone = "bad"
    sentence = "; ".join(words)
    return Headline(f"{sentence[0].upper()}{sentence[1:]}.", tone)


def _got_worse(before: Finding | None, after: Finding | None) -> bool:
    """Whether a finding fails that did not fail before."""
    was, now = (finding is not None and finding.verdict is Verdict.FAIL for finding in (before, after))
    return now and not was


def _short(before: RunData, after: RunData, comparison: RunComparison) -> list[Block]:
    numbers: list[tuple[str, Cell]] = [
        ("numbers that changed", count(len(comparison.changed))),
        ("did not change", count(len(comparison.unchanged))),
        ("inconclusive", count(len(comparison.unclear))),
        ("settings that differ", count(len(comparison.settings))),
        ("findings that changed", count(len(comparison.findings))),
        ("changes in the cluster", count(len(comparison.cluster))),
    ]
    notices: list[tuple[str, str]] = []
    if before.summary.verb != after.summary.verb:
        text = f"A is a run of {before.summary.verb}, B of {after.summary.verb}: they have few numbers in common"
        notices.append(("The runs", text))
    if few := sum(changed.judged.why == FEW for changed in comparison.numbers):
        which = plural(few, "number has", "numbers have")
        text = f"{which} fewer than {LEAST_SAMPLES} samples in one of the runs, too few to compare"
        notices.append(("Samples", text))
    if comparison.cluster_unread:
        notices.append(("The cluster files", f"cannot be compared: {comparison.cluster_unread}"))
    entries = [Entry(mark=MarkCell("notice", "notice"), title=title, text=text) for title, text in notices]
    return [Facts(numbers, large=True), *([Entries(entries)] if entries else [])]


def _list_changed(comparison: RunComparison) -> list[Block]:
    if not comparison.numbers:
        return [TextBlock("The two runs have no number in common.")]
    drawn = changes([*comparison.changed, *comparison.unclear, *comparison.unchanged], comparison.shared)
    blocks: list[Block] = [drawn] if drawn else []
    if comparison.changed:
        blocks += _table(comparison.changed, comparison.shared)
    else:
        blocks.insert(0, TextBlock("None, as far as the samples show."))
    shared = ", ".join(f"{name} {value}" for name, value in sorted(comparison.shared))
    if shared and (comparison.changed or drawn):
        blocks.append(TextBlock(f"The same for all of them: {shared}."))
    return blocks


def _unclear(comparison: RunComparison) -> list[Block]:
    """Show the inconclusive numbers: large but uncertain differences are neither reported as changes nor hidden."""
    return _table(comparison.unclear, comparison.shared) if comparison.unclear else []


def _settings(comparison: RunComparison) -> list[Block]:
    rows = [
        (Code(setting.key), _or_missing(setting.before), _or_missing(setting.after)) for setting in comparison.settings
    ]
    return [TableBlock(("setting", "before", "after"), rows)] if rows else []


def _or_missing(value: str | None) -> str:
    return "not there" if value is None else value


def _lone(comparison: RunComparison) -> list[Block]:
    rows = [(item.kind, Code(item.name), item.where, lone_in_words(item)) for item in comparison.lone]
    return [TableBlock(("", "name", "only in", "details"), rows)] if rows else []


def lone_in_words(item: Lone) -> str:
    """Describe the part of a measure that only one run has, or how often an event occurred."""
    if item.kind == "event":
        return f"{item.count:,} times" if item.count > 1 else "once"
    more = f"; {len(item.of) - MOST_NAMED:,} more" if len(item.of) > MOST_NAMED else ""
    return "; ".join(item.of[:MOST_NAMED]) + more


def _list_unchanged(comparison: RunComparison) -> list[Block]:
    if not comparison.unchanged:
        return []
    return [Fold(plural(len(comparison.unchanged), "number"), _table(comparison.unchanged, comparison.shared))]


def _table(numbers: Sequence[Changed], shared: frozenset[tuple[str, str]]) -> list[Block]:
    rows = [_row(changed, shared) for changed in numbers[:MOST_ROWS]]
    table: list[Block] = [TableBlock(COLUMNS, rows, numbers=NUMBERS)]
    if len(numbers) > MOST_ROWS:
        table.append(TextBlock(f"{len(numbers) - MOST_ROWS:,} more: `railbed compare A B --json` has them all."))
    return table


def _row(changed: Changed, shared: frozenset[tuple[str, str]]) -> tuple[Cell, ...]:
    words = change_in_words(changed)
    change = words if changed.share is None else Value(changed.share, "1", words)
    noise = show_with_unit(changed.noise, changed.unit) if changed.noise is not None else "unknown"
    values = (show_with_unit(changed.before, changed.unit), show_with_unit(changed.after, changed.unit))
    return (
        changed.name,
        what_of(changed, shared),
        *values,
        change,
        noise,
        " and ".join(f"{number:,}" for number in changed.samples),
    )


def what_of(changed: Changed, shared: frozenset[tuple[str, str]]) -> str:
    """Return the labels of a number, or the steps that it is from."""
    return own_labels(changed, shared) or (SECOND_HALF if changed.over_steps else "")


def _findings(comparison: RunComparison) -> list[Block]:
    if not comparison.findings:
        return []
    ordered = sorted(comparison.findings, key=lambda pair: not _got_worse(*pair))
    rows = [_finding_row(before, after) for before, after in ordered]
    return [TableBlock(("rule", "subject", "before", "after", "was", "is"), rows)]


def _finding_row(before: Finding | None, after: Finding | None) -> tuple[Cell, ...]:
    latest = after or before
    assert latest is not None
    marks = [
        MarkCell(finding.verdict.value, TONES[finding.verdict]) if finding else MarkCell("not there")
        for finding in (before, after)
    ]
    return (
        Code(latest.check),
        latest.subject,
        *marks,
        *(finding.observed if finding else "" for finding in (before, after)),
    )


def _cluster(comparison: RunComparison) -> list[Block]:
    if comparison.cluster_unread:
        return []
    if not comparison.cluster:
        return [TextBlock("The cluster files are equal.")]
    rows = [
        (Code(change.subject), change.before or "not there", change.after or "not there")
        for change in comparison.cluster
    ]
    return [TableBlock(("key", "before", "after"), rows)]


def _runs(before: RunData, after: RunData) -> TableBlock:
    columns = [_about(run) for run in (before, after)]
    return TableBlock(("", "before", "after"), [(name, *(column[name] for column in columns)) for name in columns[0]])


def _about(run: RunData) -> dict[str, Cell]:
    summary = run.summary
    return {
        "run": Code(summary.id),
        "command": Code(command(run)),
        "cluster": summary.cluster,
        "began": moment(summary.started),
        "took": seconds(run.seconds) if run.seconds is not None else "unknown",
        "status": summary.status,
        "railbed": summary.version,
    }


def _method() -> str:
    return (
        "A number is the median of its samples: its repeats, or, of a measure over steps, the second half of the "
        "steps that both runs have, when it has settled (unlike the median in a run's own report, which is over "
        "all of its steps). Numbers are compared by their factor: the interval of the difference of the logarithms, "
        f"with {100 * CONFIDENCE:g}{JOIN}% confidence, by Welch's t. Consecutive steps are similar, so they count "
        f"as {MOST_BLOCKS} samples, each the median of a tenth of them, compared in pairs by Student's t. A number "
        "changed if the interval excludes zero and the median changed by more than "
        f"{100 * LEAST:g}{JOIN}%; it did not change if the whole interval is within {100 * SAME:g}{JOIN}%. Otherwise, "
        f"and with fewer than {LEAST_SAMPLES} samples in one of the runs, the result is inconclusive. Of a hundred "
        "unchanged numbers, about one appears to have changed. The interval reflects how much the samples of a run "
        "vary, and nothing else that differed between the runs. Numbers are matched by name, unit and "
        "labels, regardless of the time and of the version of a tool."
    )
