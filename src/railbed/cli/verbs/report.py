"""railbed report"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railbed.cli.options import JsonOption
from railbed.cli.pagefile import STANDARD_OUTPUT, write_page
from railbed.cli.run_kinds import chosen_run
from railbed.cli.screens.json import JsonScreen
from railbed.cli.screens.progress import working
from railbed.errors import UsageError
from railbed.model.events import ReportWritten
from railbed.report import Report, describe, read
from railbed.report.formats.data import as_csv, as_json
from railbed.report.formats.html import as_html
from railbed.report.formats.markdown import as_markdown
from railbed.report.reading.run import RunData, with_timeline

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
        text = _written(document, folder, form)
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


def read_all(folder: Path) -> RunData:
    """Return a run's data with its series, and with the verdicts about them."""
    return _with_verdicts(with_timeline(read(folder), folder), folder)


def _with_verdicts(data: RunData, folder: Path) -> RunData:
    """Return a run's data with what happened, if the run has time series and its cluster file is undamaged."""
    if data.timeline is None or not data.timeline.series():
        return data
    # Imported here because most runs have none.
    from railbed.cli.verbs.diagnose.run import verdicts_of

    with suppress(UsageError):
        return replace(data, verdicts=verdicts_of(folder, data.timeline))
    return data


def _written(document: Report, folder: Path, form: Format) -> bytes:
    match form:
        case Format.HTML:
            return as_html(document).encode()
        case Format.MARKDOWN:
            return as_markdown(document).encode()
        case Format.JSON:
            return as_json(document)
        case Format.CSV:
            return as_csv(folder)
