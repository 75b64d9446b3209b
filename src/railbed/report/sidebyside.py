"""Two runs as one document: what changed in the numbers beyond noise, in the findings, and in the cluster."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from railbed.model.record import Finding, Verdict
from railbed.model.scrub import scrub
from railbed.report.blocks import Block, Cell, Code, Entries, Entry, Facts, Fold, Mark, Table, Text, Tone, Value
from railbed.report.changes import changes, own_labels, signed
from railbed.report.comparing import LEAST, NORMAL_MAD, SIGMAS, Changed, Compared
from railbed.report.data import RunData
from railbed.report.document import Document, Part
from railbed.report.section import Headline
from railbed.report.sections.findings import TONES
from railbed.report.values import count, measured
from railbed.report.words import JOIN, moment, plural, seconds

TONE_WORDS = {"bad": "Worse", "notice": "Changed", "good": "As it was", "quiet": ""}
COLUMNS = ("measure", "of", "before", "after", "change", "noise")
NUMBERS = COLUMNS[2:]
LEAST_WORDS = f"{100 * LEAST:g}{JOIN}%"
MOST_ROWS = 500


def describe_both(before: RunData, after: RunData, found: Compared) -> Document:
    """Say what lies between two runs."""
    verdict = _verdict(before, after, found)
    parts = (
        ("short", "In short", _short(before, after, found)),
        ("numbers", "Numbers that changed", _changed(found)),
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


def _verdict(before: RunData, after: RunData, found: Compared) -> Headline:
    words = [found.in_short(before.summary.id, after.summary.id)]
    if found.findings:
        words.append(plural(len(found.findings), "finding differs", "findings differ"))
    if found.cluster:
        words.append(plural(len(found.cluster), "key of the cluster file changed", "keys of the cluster file changed"))
    tone: Tone = "notice" if found.changed or found.findings or found.cluster else "good"
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
        ("changed beyond noise", count(len(found.changed))),
        ("did not change", count(len(found.unchanged))),
        ("findings that changed", count(len(found.findings))),
        ("changes in the cluster", count(len(found.cluster))),
    ]
    notices: list[tuple[str, str]] = []
    if before.summary.verb != after.summary.verb:
        text = f"A is one of {before.summary.verb}, B one of {after.summary.verb}: they share few numbers"
        notices.append(("The runs", text))
    if once := sum(one.repeats == 1 for one in found.numbers):
        text = (
            f"{plural(once, 'number was', 'numbers were')} measured once in each run, so it is not known: a change of "
        )
        notices.append(("Noise", f"{text}more than {LEAST_WORDS} counts as one"))
    if found.cluster_unread:
        notices.append(("The cluster files", f"cannot be compared: {found.cluster_unread}"))
    entries = [Entry(mark=Mark("notice", "notice"), title=title, text=text) for title, text in notices]
    return [Facts(numbers, large=True), *([Entries(entries)] if entries else [])]


def _changed(found: Compared) -> list[Block]:
    if not found.numbers:
        return [Text("The two runs have no number in common.")]
    drawn = changes([*found.changed, *found.unchanged], found.shared)
    blocks: list[Block] = [drawn] if drawn else []
    if found.changed:
        blocks += _table(found.changed, found.shared)
    else:
        blocks.insert(0, Text("None changed by more than its noise."))
    told = ", ".join(f"{name} {value}" for name, value in sorted(found.shared))
    if told and (found.changed or drawn):
        blocks.append(Text(f"The same for all of them: {told}."))
    return blocks


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
    change = "from zero" if one.share is None else Value(one.share, "1", signed(1 + one.share))
    noise = measured(one.noise, one.unit) if one.repeats > 1 else "not known"
    values = (measured(one.before, one.unit), measured(one.after, one.unit))
    return (one.name, own_labels(one, shared), *values, change, noise)


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
    command = scrub(shlex.join(["railbed", *summary.arguments]).encode("utf-8", "replace")).decode()
    return {
        "run": Code(summary.id),
        "command": Code(command),
        "cluster": summary.cluster,
        "began": moment(summary.started),
        "took": seconds(run.seconds) if run.seconds is not None else "unknown",
        "ended": summary.status,
        "railbed": summary.version,
    }


def _method() -> str:
    return (
        "A number is the middle of its repeats; of a measure over steps, that of the second half of the run, when it "
        f"has settled. Its noise is {SIGMAS:g} times the spread of the repeats in the noisier run ({NORMAL_MAD} times "
        "the median absolute deviation). A number changed where it moved by more than its noise and by more than "
        f"{LEAST_WORDS}. Numbers are the same where name, unit and labels are; when they were measured, and by which "
        "version of a tool, does not matter."
    )
