"""railbed compare"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.table import Table
from rich.text import Text

from railbed.api.exits import OK
from railbed.cli.chosen import chosen_run
from railbed.cli.console import STANDARD_OUTPUT, SafeConsole, print_hanging, write_page
from railbed.cli.options import JsonOption
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.progress import working
from railbed.cli.screens.text import change_line
from railbed.errors import UsageError
from railbed.model import events
from railbed.model.record import Finding
from railbed.model.text import printable
from railbed.present.wording import JOIN, with_unit
from railbed.report import Report
from railbed.report.compare.changes import change_in_words, own_labels
from railbed.report.compare.comparison import LEAST, Changed, RunComparison, compare_runs, distance
from railbed.report.compare.page import describe_both, lone_in_words
from railbed.report.compare.settings import Lone, SettingChange
from railbed.report.formats.html import as_html
from railbed.report.reading.run import RunData, read
from railbed.store import NEWEST, RunKind, RunSummary, find_run, read_run_in

BeforeArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of a run, its folder, or newest.")]
AfterArgument = Annotated[
    str, typer.Argument(metavar="OTHER_RUN", help="Another run; newest is the newest run of the same verb.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write a page instead; - is standard output."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Show all numbers, including those that did not change.")]
LEAST_SHOWN = log(1 + LEAST)
"""The smallest unclear difference that is shown without --all."""
MOST_ROWS = 40
MOST_NAMED = 8


def compare_command(
    before: BeforeArgument,
    after: AfterArgument,
    everything: AllOption = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare two runs: which numbers changed, which settings differ, and what only one of them has.

    Example: railbed compare 20260101-120000-bench 20260102-120000-bench --output compared.html
    """
    folders = _choose_runs(before, after)
    with working(f"reading {folders[0].name} and {folders[1].name}") as activity:
        first, second = (read(folder) for folder in folders)
        activity.begin("comparing the runs")
        comparison = compare_runs(first, second)
    if as_json and output == STANDARD_OUTPUT:
        raise UsageError("--json and --output - both write to standard output", hint="leave one of them out")
    if as_json:
        _as_json(comparison)
    elif output is None:
        _show(first, second, comparison, everything=everything)
    if output is not None:
        _page(describe_both(first, second, comparison), output, as_json=as_json)
    return OK


def _choose_runs(before: str, after: str) -> tuple[Path, Path]:
    """Return the folders of both runs; `newest` is the newest of the other's verb."""
    if before == after == NEWEST:
        raise UsageError(f"{NEWEST} and {NEWEST} are the same run", hint="name one of the runs")
    if NEWEST not in (before, after):
        return find_run(before), find_run(after)
    other = find_run(after if before == NEWEST else before)
    kind = _like(other)
    newest = chosen_run(NEWEST, kind)
    if newest.samefile(other):
        raise UsageError(f"{other.name} is itself the newest {kind.noun}", hint="name another run to compare it with")
    return (newest, other) if before == NEWEST else (other, newest)


def _like(other: Path) -> RunKind:
    """Return the runs of the same verb as another, which have the same numbers."""
    summary = read_run_in(other)
    verb = summary.verb if summary else ""
    return RunKind(noun=f"{verb} run", fits=lambda run, _: run.verb == verb, hint=f"`railbed {verb}` makes one")


def _page(document: Report, path: Path, *, as_json: bool) -> None:
    """Write the page and print its path, with the same wording as `report`."""
    write_page(path, as_html(document).encode(), typed=True)
    if as_json:
        written = events.ComparisonWritten(
            subject=document.title,
            file=str(path),
            verdict=document.sentence,
            sections=document.sections,
            figures=document.figures,
        )
        JsonScreen().show(written)
    elif path != STANDARD_OUTPUT:
        sys.stdout.write(f"{path}\n")


def _as_json(comparison: RunComparison) -> None:
    lines: list[dict[str, object]] = [
        {
            "kind": "comparison",
            "name": changed.name,
            "of": changed.of,
            "unit": changed.unit,
            "before": changed.before,
            "after": changed.after,
            "share": changed.share,
            "factor": changed.factor,
            "noise": changed.noise,
            "beyond_noise": changed.is_beyond_noise,
            "outcome": changed.judged.outcome,
            "why": changed.judged.why,
            "samples": changed.samples,
        }
        for changed in comparison.numbers
    ]
    lines += [
        {"kind": "comparison", "name": "setting", "of": setting.key, "before": setting.before, "after": setting.after}
        for setting in comparison.settings
    ]
    lines += [
        {"kind": "comparison", "name": f"only_{item.kind}", "of": item.name, "only_in": item.where}
        | {"count": item.count, "labels": list(item.of)}
        for item in comparison.lone
    ]
    lines += [
        {
            "kind": "comparison",
            "name": "finding",
            "of": _subject(before or after),
            "before": _verdict(before),
            "after": _verdict(after),
        }
        for before, after in comparison.findings
    ]
    for line in [*lines, *comparison.cluster]:
        sys.stdout.write(to_json(line).decode() + "\n")


def _show(first: RunData, second: RunData, comparison: RunComparison, *, everything: bool) -> None:
    console = SafeConsole(highlight=False)
    names = {"before": first.summary.id, "after": second.summary.id}
    ends = [f"{run.summary.id}{_ending(run.summary)}" for run in (first, second)]
    most = sys.maxsize if everything else MOST_ROWS
    _show_numbers(console, "changed:", comparison.changed, comparison, most)
    may = [number for number in comparison.unclear if everything or distance(number.before, number.after) > LEAST_SHOWN]
    _show_numbers(
        console, "may have changed, but there are too few samples or they vary too much:", may, comparison, most
    )
    _show_numbers(console, "did not change:", comparison.unchanged if everything else [], comparison, most)
    console.print(Text(comparison.in_short().replace(JOIN, " ")))
    console.print(Text(f"before is {ends[0]}, after is {ends[1]}"))
    if any(number.over_steps for number in comparison.numbers):
        console.print(Text("measures over steps: the median of the second half of the steps in both runs"))
    for setting in comparison.settings[:most]:
        console.print(_setting(setting))
    if (left := len(comparison.settings) - most) > 0:
        console.print(Text(f"{left:,} more settings: --all shows them", style="dim"))
    for where, name in names.items():
        items = [item for item in comparison.lone if item.where == where]
        _show_lone(console, f"only in {name}", items, everything=everything)
    for before, after in comparison.findings:
        was, now = _verdict(before) or "not there", _verdict(after) or "not there"
        console.print(Text(f"{_subject(before or after)}: {was} → {now}"))
    for change in comparison.cluster:
        print_hanging(console, change_line(change), indent=2)
    if comparison.cluster_unread:
        console.print(
            Text(f"the cluster files cannot be compared: {printable(comparison.cluster_unread)}", style="yellow")
        )
    elif not comparison.cluster:
        console.print("the cluster files are equal")


def _ending(run: RunSummary) -> str:
    """Return the status of a run that is not done: its numbers may be incomplete."""
    return "" if run.status == "done" else f" ({run.status})"


def _show_numbers(
    console: SafeConsole, title: str, numbers: Sequence[Changed], comparison: RunComparison, most: int
) -> None:
    if not numbers:
        return
    console.print(Text(title, style="bold"))
    console.print(_numbers(numbers[:most], comparison.shared))
    if (left := len(numbers) - most) > 0:
        console.print(Text(f"{left:,} more with smaller changes: --all shows them", style="dim"))


def _setting(setting: SettingChange) -> Text:
    before, after = (
        printable(value) if value is not None else "not there" for value in (setting.before, setting.after)
    )
    return Text.assemble((printable(setting.key), "bold"), f": {before} → {after}")


def _show_lone(console: SafeConsole, title: str, alone: Sequence[Lone], *, everything: bool) -> None:
    """List what only one run has; of measures, only their number, since there may be hundreds."""
    for kind in ("measure", "node", "rank", "event"):
        several = [item for item in alone if item.kind == kind]
        shown = several if everything else several[:MOST_NAMED]
        if not shown:
            continue
        words = [printable(f"{item.name}{_how_much(item)}") for item in shown]
        left = len(several) - len(shown)
        more = [f"{left:,} more"] if left else []
        console.print(Text(f"{title}: {kind if len(several) == 1 else kind + 's'} {', '.join([*words, *more])}"))


def _how_much(item: Lone) -> str:
    if item.kind == "measure":
        return f" ({item.count:,} numbers)" if item.count > 1 else f" ({item.of[0]})" if item.of and item.of[0] else ""
    return f" ({lone_in_words(item)})" if item.kind == "event" and item.count > 1 else ""


def _numbers(numbers: Sequence[Changed], shared: frozenset[tuple[str, str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("measure", "of", "before", "after", "change"):
        is_number = column in ("before", "after", "change")
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number)
    for changed in numbers:
        style = "bold" if changed.is_beyond_noise else ""
        table.add_row(
            printable(changed.name),
            printable(own_labels(changed, shared)),
            *(
                printable(with_unit(value, changed.unit).replace(JOIN, " "))
                for value in (changed.before, changed.after)
            ),
            Text(change_in_words(changed).replace(JOIN, " "), style=style),
        )
    return table


def _subject(finding: Finding | None) -> str:
    assert finding is not None
    return printable(f"{finding.check} {finding.subject}")


def _verdict(finding: Finding | None) -> str:
    return printable(f"{finding.verdict.value} ({finding.observed})") if finding else ""
