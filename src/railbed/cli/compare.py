"""railbed compare"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railbed.cli.exits import OK
from railbed.cli.options import JsonOption
from railbed.cli.tables import change_line, printable
from railbed.model.record import Finding
from railbed.report.comparing import Changed, Compared, compared
from railbed.report.data import RunData, read
from railbed.report.words import number
from railbed.store import find_run

BeforeArgument = Annotated[str, typer.Argument(metavar="A", help="Name of a run, or its folder.")]
AfterArgument = Annotated[str, typer.Argument(metavar="B", help="Another run, of the same verb.")]
AllOption = Annotated[bool, typer.Option("--all", help="Show the numbers that did not change, too.")]


def compare_command(
    before: BeforeArgument, after: AfterArgument, everything: AllOption = False, as_json: JsonOption = False
) -> int:
    """Set two runs side by side: what changed in the numbers beyond noise, in the findings, and in the cluster.

    Example: railbed compare 20260101-120000-bench 20260102-120000-bench
    """
    first, second = (read(find_run(one)) for one in (before, after))
    found = compared(first, second)
    if as_json:
        _as_json(found)
    else:
        _show(first, second, found, everything=everything)
    return OK


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
    told = [one for one in found.numbers if everything or one.is_beyond_noise]
    if told:
        console.print(_numbers(told))
    quiet = len(found.numbers) - sum(one.is_beyond_noise for one in found.numbers)
    words = [f"{len(found.numbers) - quiet} numbers changed beyond noise, {quiet} did not"]
    words += [f"{found.only_before} only in {first.summary.id}"] if found.only_before else []
    words += [f"{found.only_after} only in {second.summary.id}"] if found.only_after else []
    console.print(Text("; ".join(words)))
    for one, other in found.findings:
        console.print(Text(f"{_of(one or other)}: {_told(one) or 'not there'} → {_told(other) or 'not there'}"))
    for change in found.cluster:
        console.print(change_line(change))
    if found.cluster_unread:
        console.print(Text(f"the cluster files cannot be compared: {printable(found.cluster_unread)}", style="yellow"))
    elif not found.cluster:
        console.print("the cluster files are equal")


def _numbers(told: list[Changed]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("measure", "of", "before", "after", "change"):
        table.add_column(column, justify="right" if column in ("before", "after", "change") else "left")
    for one in sorted(told, key=lambda one: -abs(one.share)):
        style = "bold" if one.is_beyond_noise else "dim"
        values = [f"{number(value)} {one.unit}" for value in (one.before, one.after)]
        table.add_row(one.name, printable(one.of), *values, Text(f"{one.share:+.1%}", style=style))
    return table


def _of(finding: Finding | None) -> str:
    assert finding is not None
    return printable(f"{finding.check} {finding.subject}")


def _told(finding: Finding | None) -> str:
    return printable(f"{finding.verdict.value} ({finding.observed})") if finding else ""
