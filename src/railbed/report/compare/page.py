"""Two runs as one document: the numbers that changed, the settings that differ, and what only one of them has."""

from __future__ import annotations

from collections.abc import Sequence

from railbed.model.record import Finding, Verdict
from railbed.report.blocks import Block, Cell, Code, Entries, Entry, Facts, Fold, Mark, Table, Text, Tone, Value
from railbed.report.compare.changes import change_in_words, changes, own_labels
from railbed.report.compare.comparison import Changed, Compared
from railbed.report.compare.judge import CONFIDENCE, FEW, LEAST, LEAST_SAMPLES, MOST_BLOCKS, SAME
from railbed.report.compare.settings import Lone, command
from railbed.report.document import Document, Part
from railbed.report.reading.run import RunData
from railbed.report.section import Headline
from railbed.report.sections.findings import TONES
from railbed.report.values import count, measured
from railbed.report.words import JOIN, moment, plural, seconds

TONE_WORDS = {"bad": "Worse", "notice": "Changed", "good": "As it was", "quiet": "Not clear"}
COLUMNS = ("measure", "of", "before", "after", "change", "chance", "samples")
NUMBERS = COLUMNS[2:]
MOST_ROWS = 500
MOST_NAMED = 8
SECOND_HALF = "second half of the steps"


def describe_both(before: RunData, after: RunData, found: Compared) -> Document:
    """Say what lies between two runs."""
    verdict = _verdict(found)
    parts = (
        ("short", "In short", _short(before, after, found)),
        ("numbers", "Numbers that changed", _changed(found)),
        ("unclear", "Numbers of which the samples do not tell", _unclear(found)),
        ("settings", "Settings that differ", _settings(found)),
        ("lone", "Only in one of the runs", _lone(found)),
        ("findings", "Findings that changed", _findings(found)),
        ("cluster", "The cluster between them", _cluster(found)),
        ("unchanged", "Numbers that did not change", _unchanged(found)),
        ("runs", "The two runs", [_runs(before, after)]),
        ("method", "How they were compared", [Text(_method())]),
    )
    return Document(
        title=f"{before.summary.id} and {after.summary.id}",
        over="railbed compare: " + " and ".join(map(_named, (before, after))),
        verdict=verdict,
        tone_word=TONE_WORDS[verdict.tone],
        parts=[Part(name, title, blocks) for name, title, blocks in parts if blocks],
    )


def _named(run: RunData) -> str:
    return f"{run.summary.verb} on {run.summary.cluster}, {moment(run.summary.started)}"


def _verdict(found: Compared) -> Headline:
    words = [found.in_short()]
    if found.settings:
        words.append(plural(len(found.settings), "setting differs", "settings differ"))
    if found.findings:
        words.append(plural(len(found.findings), "finding differs", "findings differ"))
    if found.cluster:
        words.append(plural(len(found.cluster), "key of the cluster file changed", "keys of the cluster file changed"))
    differs = found.changed or found.findings or found.cluster or any(one.key != "command" for one in found.settings)
    tone: Tone = "notice" if differs else "quiet" if found.unclear else "good"
    if any(_got_worse(*pair) for pair in found.findings):
        tone = "bad"
    sentence = "; ".join(words)
    return Headline(f"{sentence[0].upper()}{sentence[1:]}.", tone)


def _got_worse(before: Finding | None, after: Finding | None) -> bool:
    """Say whether a finding fails that did not fail before."""
    was, now = (one is not None and one.verdict is Verdict.FAIL for one in (before, after))
    return now and not was


def _short(before: RunData, after: RunData, found: Compared) -> list[Block]:
    numbers: list[tuple[str, Cell]] = [
        ("numbers that changed", count(len(found.changed))),
        ("did not change", count(len(found.unchanged))),
        ("samples do not tell", count(len(found.unclear))),
        ("settings that differ", count(len(found.settings))),
        ("findings that changed", count(len(found.findings))),
        ("changes in the cluster", count(len(found.cluster))),
    ]
    notices: list[tuple[str, str]] = []
    if before.summary.verb != after.summary.verb:
        text = f"A is one of {before.summary.verb}, B one of {after.summary.verb}: they share few numbers"
        notices.append(("The runs", text))
    if few := sum(one.judged.why == FEW for one in found.numbers):
        text = f"{plural(few, 'number has', 'numbers have')} fewer than {LEAST_SAMPLES} in one of the runs: {FEW}"
        notices.append(("Samples", text))
    if found.cluster_unread:
        notices.append(("The cluster files", f"cannot be compared: {found.cluster_unread}"))
    entries = [Entry(mark=Mark("notice", "notice"), title=title, text=text) for title, text in notices]
    return [Facts(numbers, large=True), *([Entries(entries)] if entries else [])]


def _changed(found: Compared) -> list[Block]:
    if not found.numbers:
        return [Text("The two runs have no number in common.")]
    drawn = changes([*found.changed, *found.unclear, *found.unchanged], found.shared)
    blocks: list[Block] = [drawn] if drawn else []
    if found.changed:
        blocks += _table(found.changed, found.shared)
    else:
        blocks.insert(0, Text("There are none of which the samples say so."))
    told = ", ".join(f"{name} {value}" for name, value in sorted(found.shared))
    if told and (found.changed or drawn):
        blocks.append(Text(f"The same for all of them: {told}."))
    return blocks


def _unclear(found: Compared) -> list[Block]:
    """Show what may have changed or not; what is large and uncertain is no news, and not hidden either."""
    return _table(found.unclear, found.shared) if found.unclear else []


def _settings(found: Compared) -> list[Block]:
    rows = [(Code(one.key), _or_missing(one.before), _or_missing(one.after)) for one in found.settings]
    return [Table(("setting", "before", "after"), rows)] if rows else []


def _or_missing(value: str | None) -> str:
    return "not there" if value is None else value


def _lone(found: Compared) -> list[Block]:
    rows = [(one.kind, Code(one.name), one.where, lone_in_words(one)) for one in found.lone]
    return [Table(("", "name", "only in", "what of it"), rows)] if rows else []


def lone_in_words(one: Lone) -> str:
    """Return what of a measure only one run has, or how often an event came."""
    if one.kind == "event":
        return f"{one.count:,} times" if one.count > 1 else "once"
    more = f"; {len(one.of) - MOST_NAMED:,} more" if len(one.of) > MOST_NAMED else ""
    return "; ".join(one.of[:MOST_NAMED]) + more


def _unchanged(found: Compared) -> list[Block]:
    if not found.unchanged:
        return []
    return [Fold(plural(len(found.unchanged), "number"), _table(found.unchanged, found.shared))]


def _table(told: Sequence[Changed], shared: frozenset[tuple[str, str]]) -> list[Block]:
    rows = [_row(one, shared) for one in told[:MOST_ROWS]]
    table: list[Block] = [Table(COLUMNS, rows, numbers=NUMBERS)]
    if len(told) > MOST_ROWS:
        table.append(Text(f"{len(told) - MOST_ROWS:,} more: `railbed compare A B --json` has them all."))
    return table


def _row(one: Changed, shared: frozenset[tuple[str, str]]) -> tuple[Cell, ...]:
    words = change_in_words(one)
    change = words if one.share is None else Value(one.share, "1", words)
    noise = measured(one.noise, one.unit) if one.noise is not None else "not known"
    values = (measured(one.before, one.unit), measured(one.after, one.unit))
    return (
        one.name,
        what_of(one, shared),
        *values,
        change,
        noise,
        " and ".join(f"{number:,}" for number in one.samples),
    )


def what_of(one: Changed, shared: frozenset[tuple[str, str]]) -> str:
    """Return what a number is of: its own labels, or the steps that it was taken from."""
    return own_labels(one, shared) or (SECOND_HALF if one.over_steps else "")


def _findings(found: Compared) -> list[Block]:
    if not found.findings:
        return []
    ordered = sorted(found.findings, key=lambda pair: not _got_worse(*pair))
    rows = [_finding_row(before, after) for before, after in ordered]
    return [Table(("rule", "subject", "before", "after", "was", "is"), rows)]


def _finding_row(before: Finding | None, after: Finding | None) -> tuple[Cell, ...]:
    told = after or before
    assert told is not None
    marks = [Mark(one.verdict.value, TONES[one.verdict]) if one else Mark("not there") for one in (before, after)]
    return (Code(told.check), told.subject, *marks, *(one.observed if one else "" for one in (before, after)))


def _cluster(found: Compared) -> list[Block]:
    if found.cluster_unread:
        return []
    if not found.cluster:
        return [Text("The cluster files are equal.")]
    rows = [(Code(one.subject), one.before or "not there", one.after or "not there") for one in found.cluster]
    return [Table(("key", "before", "after"), rows)]


def _runs(before: RunData, after: RunData) -> Table:
    columns = [_about(run) for run in (before, after)]
    return Table(("", "before", "after"), [(name, *(one[name] for one in columns)) for name in columns[0]])


def _about(run: RunData) -> dict[str, Cell]:
    summary = run.summary
    return {
        "run": Code(summary.id),
        "command": Code(command(run)),
        "cluster": summary.cluster,
        "began": moment(summary.started),
        "took": seconds(run.seconds) if run.seconds is not None else "unknown",
        "ended": summary.status,
        "railbed": summary.version,
    }


def _method() -> str:
    return (
        "A number is the median of its samples: its repeats, or, of a measure over steps, the second half of the "
        "steps that both runs have, when it has settled (so it is not the median of a run's own report, which is over "
        "all of its steps). Numbers are compared by their factor: the interval of the difference of the logarithms, "
        f"with {100 * CONFIDENCE:g}{JOIN}% confidence, by Welch's t. Steps next to each other are alike, so they count "
        f"as {MOST_BLOCKS} samples, each the median of a tenth of them, compared in pairs by Student's t. A number "
        "changed where the interval leaves out no change and the median moved by more than "
        f"{100 * LEAST:g}{JOIN}%; it did not change where the whole interval lies within {100 * SAME:g}{JOIN}%. Else, "
        f"and with fewer than {LEAST_SAMPLES} samples in one of the runs, the samples do not tell. Of a hundred "
        "numbers that did not change, one may look as if it had. The interval knows how far the samples of a run lie "
        "apart, and nothing of what else was different between the runs. Numbers are the same where name, unit and "
        "labels are; when they were measured, and by which version of a tool, does not matter."
    )
