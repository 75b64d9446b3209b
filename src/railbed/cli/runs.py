"""railbed runs"""

from __future__ import annotations

import sys

from pydantic_core import to_json
from rich.table import Table
from rich.text import Text

from railbed.cli.console import SafeConsole
from railbed.cli.options import JsonOption
from railbed.model.printable import printable
from railbed.model.record import Verdict
from railbed.store import RunSummary, list_runs


def runs_command(as_json: JsonOption = False) -> int:
    """List the runs kept in this folder, the newest first.

    Example: railbed runs
    """
    runs = list_runs()
    if as_json:
        for run in runs:
            sys.stdout.write(to_json({"kind": "run", **to_dict(run)}).decode() + "\n")
        return 0
    if not runs:
        SafeConsole(stderr=True).print("no runs in this folder yet: `railbed check` makes one")
        return 0
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("run", "cluster", "took", "status", "result"):
        table.add_column(column, overflow="fold", no_wrap=column == "run")
    for run in runs:
        table.add_row(run.id, Text(printable(run.cluster)), _took(run), run.status, _result(run))
    SafeConsole(highlight=False).print(table)
    return 0


def to_dict(run: RunSummary) -> dict[str, object]:
    """Return a run as a flat record."""
    return {name: getattr(run, name) for name in RunSummary.__dataclass_fields__}


def _took(run: RunSummary) -> str:
    return f"{run.ended - run.started:.1f} s" if run.ended is not None else ""


def _result(run: RunSummary) -> str:
    counts = [f"{run.verdicts[verdict]} {verdict}" for verdict in Verdict if verdict in run.verdicts]
    return ", ".join(counts)
