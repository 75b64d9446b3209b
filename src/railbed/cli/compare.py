"""railbed compare"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railbed.cli.exits import OK
from railbed.cli.options import JsonOption
from railbed.cli.pagefile import STANDARD_OUTPUT, write_page
from railbed.cli.tables import change_line, printable
from railbed.errors import UsageError
from railbed.model.record import Event, Finding
from railbed.report import Document
from railbed.report.changes import own_labels, signed
from railbed.report.comparing import Changed, Compared, compared
from railbed.report.data import RunData, read
from railbed.report.page import as_html
from railbed.report.sidebyside import describe_both
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


def compare_command(
    before: BeforeArgument,
    after: AfterArgument,
    everything: AllOption = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set two runs side by side: what changed in the numbers beyond noise, in the findings, and in the cluster.

    Example: railbed compare 20260101-120000-bench 20260102-120000-bench --output compared.html
    """
    first, second = (read(find_run(one)) for one in (before, after))
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
            "noise": one.noise,
            "beyond_noise": one.is_beyond_noise,
        }
        for one in found.numbers
    ]
    lines += [
        {"kind": "comparison", "name": "finding", "of": _of(one or other), "before": _told(one), "after": _told(other)}
        for one, other in found.findings
    ]
    for line in [*lines, *found.cluster]:
        sys.stdout.write(to_json(line).decode() + "\n")


def _show(first: RunData, second: RunData, found: Compared, *, everything: bool) -> None:
    console = Console(highlight=False)
    most = len(found.numbers) if everything else MOST_ROWS
    if told := [*found.changed[:most], *(found.unchanged if everything else ())]:
        console.print(_numbers(told, found.shared))
    if (left := len(found.changed) - most) > 0:
        console.print(Text(f"{left:,} more that changed less: --all shows them", style="dim"))
    console.print(Text(found.in_short(first.summary.id, second.summary.id).replace(JOIN, " ")))
    for one, other in found.findings:
        console.print(Text(f"{_of(one or other)}: {_told(one) or 'not there'} → {_told(other) or 'not there'}"))
    for change in found.cluster:
        console.print(change_line(change))
    if found.cluster_unread:
        console.print(Text(f"the cluster files cannot be compared: {printable(found.cluster_unread)}", style="yellow"))
    elif not found.cluster:
        console.print("the cluster files are equal")


def _numbers(told: list[Changed], shared: frozenset[tuple[str, str]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("measure", "of", "before", "after", "change"):
        is_number = column in ("before", "after", "change")
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number)
    for one in told:
        style = "bold" if one.is_beyond_noise else "dim"
        change = "from zero" if one.share is None else signed(1 + one.share).replace(JOIN, " ")
        table.add_row(
            printable(one.name),
            printable(own_labels(one, shared)),
            *(printable(with_unit(value, one.unit).replace(JOIN, " ")) for value in (one.before, one.after)),
            Text(change, style=style),
        )
    return table


def _of(finding: Finding | None) -> str:
    assert finding is not None
    return printable(f"{finding.check} {finding.subject}")


def _told(finding: Finding | None) -> str:
    return printable(f"{finding.verdict.value} ({finding.observed})") if finding else ""
