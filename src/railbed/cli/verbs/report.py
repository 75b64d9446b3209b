"""railbed report"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railbed.api.reach import Reach
from railbed.api.verbs.report import read_all, render_handover, render_report
from railbed.cli.chosen import chosen_run
from railbed.cli.console import STANDARD_OUTPUT, write_page
from railbed.cli.hints import use_cluster_file
from railbed.cli.options import JsonOption
from railbed.cli.screens.base import JsonScreen
from railbed.cli.screens.progress import working
from railbed.errors import UsageError
from railbed.model.events import ReportWritten
from railbed.model.record import Event
from railbed.report import Report, describe
from railbed.report.handover.notes import create
from railbed.store import Store

STEM = "report"


class Format(StrEnum):
    """Format of a report."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"
    CSV = "csv"


RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN|FILE",
        help="Name of a run, its folder, or newest; with --cluster, a cluster file. [default: newest, or cluster.yaml]",
    ),
]
ClusterFlag = Annotated[
    bool,
    typer.Option(
        "--cluster",
        "-c",
        help="Write the hand-over page of a cluster: its inventory, state, figures, runs, and your notes.",
    ),
]
HandoverReplayOption = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        metavar="DIR",
        help="With --cluster: read a recording, or the folder of a run, instead of stored runs.",
    ),
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
        help=f"Where to write it; - is standard output. [default: {STEM}.html, .md, .json or .csv in the run, or "
        f"NAME.{STEM}.html beside the cluster file]",
    ),
]


def report_command(
    run: RunArgument = None,
    cluster: ClusterFlag = False,
    form: FormatOption = Format.HTML,
    output: OutputOption = None,
    replay: HandoverReplayOption = None,
    as_records: JsonOption = False,
) -> int:
    """Write a report on a run, or the hand-over page of a cluster: a self-contained page, or text, or data.

    Example: railbed report 20260101-120000-train
    """
    if as_records and output == STANDARD_OUTPUT:
        raise UsageError("--json and --output - both write to standard output", hint="leave one of them out")
    if cluster:
        return _hand_over(run, replay, form, output, as_records=as_records)
    if replay is not None:
        raise UsageError("--replay is for the page of a cluster", hint="`railbed report --cluster --replay DIR`")
    folder = chosen_run(run)
    path = output or folder / f"{STEM}.{form}"
    with working(f"reading {folder.name}") as activity:
        data = read_all(folder)
        activity.begin("writing the report")
        document = describe(data)
        text = render_report(document, folder, form.value)
    _write(path, text, output)
    _conclude(document, folder.name, path, form, as_records=as_records)
    return 0


def _hand_over(file: str | None, replay: Path | None, form: Format, output: Path | None, *, as_records: bool) -> int:
    """Write the hand-over page of a cluster, and the file for its notes if it is missing."""
    reach = Reach(replay=replay)
    use_cluster_file(Path(file) if file else None)
    with working("reading what is stored") as activity:
        page = render_handover(file, reach, Store(), form.value)
        activity.begin("writing the page")
    data = page.data
    stem = data.file.with_suffix("") if data.file else Path(data.cluster.name)
    path = output or stem.with_name(f"{stem.name}.{STEM}.{form}")
    _write(path, page.content, output)
    if data.notes_file is not None and create(data.notes_file, data.cluster.name):
        sys.stderr.write(f"your notes go to {data.notes_file}: the page shows them, and railbed never changes them\n")
    _conclude(page.document, data.cluster.name, path, form, records=data.inventory, as_records=as_records)
    return 0


def _write(path: Path, content: bytes, output: Path | None) -> None:
    write_page(path, content, typed=output is not None, hint="" if output else "--output FILE writes it elsewhere")


def _conclude(
    document: Report, subject: str, path: Path, form: Format, *, records: Sequence[Event] = (), as_records: bool
) -> None:
    """Print where the report is, or the records that it was made from and that it was written."""
    if as_records:
        written = ReportWritten(
            subject=subject,
            file=str(path),
            format=form,
            verdict=document.sentence,
            sections=document.sections,
            figures=document.figures,
        )
        screen = JsonScreen()
        for record in (*records, written):
            screen.show(record)
    elif path != STANDARD_OUTPUT:
        sys.stdout.write(f"{path}\n")
