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

from railbed.cli.console import SafeConsole
from railbed.cli.exits import OK
from railbed.cli.options import JsonOption
from railbed.cli.pagefile import STANDARD_OUTPUT, write_page
from railbed.cli.screens.progress import working
from railbed.cli.screens.text import change_line
from railbed.errors import UsageError
from railbed.model.printable import printable
from railbed.model.record import Event, Finding
from railbed.report import Document
from railbed.report.compare.changes import change_in_words, own_labels
from railbed.report.compare.comparison import Changed, Compared, compared
from railbed.report.compare.judge import LEAST, distance
from railbed.report.compare.page import describe_both, lone_in_words
from railbed.report.compare.settings import Lone, Setting
from railbed.report.formats.html import as_html
from railbed.report.reading.run import RunData, read
from railbed.report.words import JOIN, with_unit
from railbed.store import find_run

BeforeArgument = Annotated[str, typer.Argument(metavar="A", help="Name of a run, or its folder.")]
AfterArgument = Annotated[str, typer.Argument(metavar="B", help="Another run.")]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write it as a page instead; - is standard output."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Show all numbers, also those that did not change.")]
MOST_ROWS = 40
MOST_NAMED = 8


def compare_command(
    before: BeforeArgument,
    after: AfterArgument,
    everything: AllOption = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set two runs side by side: which numbers changed, which settings differ, and what only one of them has.

    Example: railbed compare 20260101-120000-bench 20260102-120000-bench --output compared.html
    """
    folders = find_run(before), find_run(after)
    with working(f"reading {folders[0].name} and {folders[1].name}") as activity:
        first, second = (read(folder) for folder in folders)
        activity.begin("comparing the runs")
        found = compared(first, second)
    if as_json and output == STANDARD_OUTPUT:
        raise UsageError("--json and --output - both write to standard output", hint="leave one of them out")
    if as_json:
        _as_json(found)
    elif output is None:
        _show(first, second, found, everything=everything)
    if output is not None:
        _page(describe_both(first, second, found), output, as_json=as_json)
    return OK


def _page(document: Document, path: Path, *, as_json: bool) -> None:
    """Write the page, and say where; the words are those of `report`."""
    write_page(path, as_html(document).encode())
    data = {
        "file": str(path),
        "verdict": document.sentence,
        "sections": document.sections,
        "figures": document.figures,
    }
    if as_json:
        sys.stdout.write(to_json(Event(name="compare", subject=document.title, data=data)).decode() + "\n")
    elif path != STANDARD_OUTPUT:
        sys.stdout.write(f"{path}\n")


def _as_json(found: Compared) -> None:
    lines: list[dict[str, object]] = [
        {
            "kind": "comparison",
            "name": one.name,
            "of": one.of,
            "unit": one.unit,
            "before": one.before,
            "after": one.after,
            "share": one.share,
            "factor": one.factor,
            "noise": one.noise,
            "beyond_noise": one.is_beyond_noise,
            "outcome": one.judged.outcome,
            "why": one.judged.why,
            "samples": one.samples,
        }
        for one in found.numbers
    ]
    lines += [
        {"kind": "comparison", "name": "setting", "of": one.key, "before": one.before, "after": one.after}
        for one in found.settings
    ]
    lines += [
        {"kind": "comparison", "name": f"only_{one.kind}", "of": one.name, "only_in": one.where}
        | {"count": one.count, "labels": list(one.of)}
        for one in found.lone
    ]
    lines += [
        {"kind": "comparison", "name": "finding", "of": _of(one or other), "before": _told(one), "after": _told(other)}
        for one, other in found.findings
    ]
    for line in [*lines, *found.cluster]:
        sys.stdout.write(to_json(line).decode() + "\n")


def _show(first: RunData, second: RunData, found: Compared, *, everything: bool) -> None:
    console = SafeConsole(highlight=False)
    names = {"before": first.summary.id, "after": second.summary.id}
    most = sys.maxsize if everything else MOST_ROWS
    _show_numbers(console, "changed:", found.changed, found, most)
    may = [one for one in found.unclear if everything or distance(one.before, one.after) > log(1 + LEAST)]
    _show_numbers(console, "may have changed, but the samples are too few or too far apart:", may, found, most)
    _show_numbers(console, "did not change:", found.unchanged if everything else [], found, most)
    console.print(Text(found.in_short().replace(JOIN, " ")))
    console.print(Text(f"before is {names['before']}, after is {names['after']}"))
    if any(one.over_steps for one in found.numbers):
        console.print(Text("measures over steps: the median of the second half of the steps in both runs"))
    for setting in found.settings[:most]:
        console.print(_setting(setting))
    if (left := len(found.settings) - most) > 0:
        console.print(Text(f"{left:,} more settings: --all shows them", style="dim"))
    for where, name in names.items():
        _show_lone(console, f"only in {name}", [one for one in found.lone if one.where == where], everything=everything)
    for one, other in found.findings:
        console.print(Text(f"{_of(one or other)}: {_told(one) or 'not there'} → {_told(other) or 'not there'}"))
    for change in found.cluster:
        console.print(change_line(change))
    if found.cluster_unread:
        console.print(Text(f"the cluster files cannot be compared: {printable(found.cluster_unread)}", style="yellow"))
    elif not found.cluster:
        console.print("the cluster files are equal")


def _show_numbers(console: SafeConsole, title: str, numbers: Sequence[Changed], found: Compared, most: int) -> None:
    if not numbers:
        return
    console.print(Text(title, style="bold"))
    console.print(_numbers(numbers[:most], found.shared))
    if (left := len(numbers) - most) > 0:
        console.print(Text(f"{left:,} more that changed less: --all shows them", style="dim"))


def _setting(one: Setting) -> Text:
    before, after = (printable(value) if value is not None else "not there" for value in (one.before, one.after))
    return Text.assemble((printable(one.key), "bold"), f": {before} → {after}")


def _show_lone(console: SafeConsole, title: str, alone: Sequence[Lone], *, everything: bool) -> None:
    """Name what only one run has; of measures, only how many of them, for there may be hundreds."""
    for kind in ("measure", "node", "rank", "event"):
        several = [one for one in alone if one.kind == kind]
        shown = several if everything else several[:MOST_NAMED]
        if not shown:
            continue
        words = [printable(f"{one.name}{_how_much(one)}") for one in shown]
        left = len(several) - len(shown)
        more = [f"{left:,} more"] if left else []
        console.print(Text(f"{title}: {kind if len(several) == 1 else kind + 's'} {', '.join([*words, *more])}"))


def _how_much(one: Lone) -> str:
    if one.kind == "measure":
        return f" ({one.count:,} numbers)" if one.count > 1 else f" ({one.of[0]})" if one.of and one.of[0] else ""
    return f" ({lone_in_words(one)})" if one.kind == "event" and one.count > 1 else ""


def _numbers(told: Sequence[Changed], shared: frozenset[tuple[str, str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("measure", "of", "before", "after", "change"):
        is_number = column in ("before", "after", "change")
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number)
    for one in told:
        style = "bold" if one.is_beyond_noise else ""
        table.add_row(
            printable(one.name),
            printable(own_labels(one, shared)),
            *(printable(with_unit(value, one.unit).replace(JOIN, " ")) for value in (one.before, one.after)),
            Text(change_in_words(one).replace(JOIN, " "), style=style),
        )
    return table


def _of(finding: Finding | None) -> str:
    assert finding is not None
    return printable(f"{finding.check} {finding.subject}")


def _told(finding: Finding | None) -> str:
    return printable(f"{finding.verdict.value} ({finding.observed})") if finding else ""
