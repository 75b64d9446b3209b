"""railbed report"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json

from railbed.cli.options import JsonOption
from railbed.errors import UsageError
from railbed.model.record import Event
from railbed.report import Page, build, read
from railbed.store import find_run, write_atomically

FILE = "report.html"

RunArgument = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Name of a run, or its folder. [default: the newest run]")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help=f"Where to write the page. [default: {FILE} in the run]"),
]


def report_command(run: RunArgument = None, output: OutputOption = None, as_json: JsonOption = False) -> int:
    """Write a page about a run: one file that can be sent and opened anywhere, without a network.

    Example: railbed report 20260101-120000-train
    """
    folder = find_run(run)
    path = output or folder / FILE
    page = build(read(folder))
    _write(path, page)
    if as_json:
        data = {"file": str(path), "verdict": page.verdict, "sections": page.sections, "figures": page.figures}
        sys.stdout.write(to_json(Event(name="report", subject=folder.name, data=data)).decode() + "\n")
    else:
        sys.stdout.write(f"{path}\n")
    return 0


def _write(path: Path, page: Page) -> None:
    hint = "" if path.name != FILE else "--output FILE writes it elsewhere"
    if path.exists() and not path.is_file():
        raise UsageError(f"cannot write the page to {path}: it is no file", hint=hint)
    try:
        # A link stays one: the file it leads to is replaced.
        write_atomically(path.resolve(), page.html.encode())
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a link that leads to itself"
        raise UsageError(f"cannot write the page to {path}: {reason}", hint=hint) from error
