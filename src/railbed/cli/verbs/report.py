"""railbed report"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railbed.api.verbs.report import read_all, render_report
from railbed.cli.chosen import chosen_run
from railbed.cli.console import STANDARD_OUTPUT, write_page
from railbed.cli.options import JsonOption
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.progress import working
from railbed.errors import UsageError
from railbed.model.events import ReportWritten
from railbed.report import describe

STEM = "report"


class Format(StrEnum):
    """Format of a report."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"
    CSV = "csv"


RunArgument = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Name of a run, its folder, or newest. [default: newest]")
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="A page, Markdown, JSON, or a CSV table of every measurement.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Where to write it; - is standard output. [default: {STEM}.html, .md, .json or .csv in the run]",
    ),
]


def report_command(
    run: RunArgument = None,
    form: FormatOption = Format.HTML,
    output: OutputOption = None,
    as_records: JsonOption = False,
) -> int:
    """Write a report on a run: a self-contained page that opens anywhere without a network, or text, or data.

    Example: railbed report 20260101-120000-train
    """
    if as_records and output == STANDARD_OUTPUT:
        raise UsageError("--json and --output - both write to standard output", hint="leave one of them out")
    folder = chosen_run(run)
    path = output or folder / f"{STEM}.{form}"
    with working(f"reading {folder.name}") as activity:
        data = read_all(folder)
        activity.begin("writing the report")
        document = describe(data)
        text = render_report(document, folder, form.value)
    write_page(path, text, typed=output is not None, hint="" if output else "--output FILE writes it elsewhere")
    if as_records:
        written = ReportWritten(
            subject=folder.name,
            file=str(path),
            format=form,
            verdict=document.sentence,
            sections=document.sections,
            figures=document.figures,
        )
        JsonScreen().show(written)
    elif path != STANDARD_OUTPUT:
        sys.stdout.write(f"{path}\n")
    return 0
