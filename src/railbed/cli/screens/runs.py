"""The list of runs: a table, or where that is too wide for the terminal, two lines for each run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from railbed.cli.console import SafeConsole, print_hanging
from railbed.cli.screens.text import STYLES
from railbed.model.record import Verdict
from railbed.model.text import duration, printable
from railbed.store import RunSummary, Status

STATUS_STYLES: Mapping[Status, str] = {
    "waiting": "cyan",
    "running": "bold cyan",
    "done": "green",
    "stopped": "yellow",
    "failed": "bold red",
    "died": "bold red",
}
INDENT = 2
MOST_COLUMNS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in the list."""

    run: RunSummary
    status: str
    """Its status, or that of its Slurm job."""

    @property
    def cells(self) -> tuple[Text, Text, Text, Text, Text]:
        """Name, cluster, time, status and result."""
        run = self.run
        status = Text(printable(self.status), style=STATUS_STYLES[run.status])
        return Text(run.id), Text(printable(run.cluster)), Text(_took(run)), status, _result(run)


def show_runs(rows: Sequence[RunRow]) -> None:
    """Print the runs; what is not a terminal gets each run on one line, however long."""
    console = SafeConsole(highlight=False)
    table = _table(rows)
    needed = console.measure(table, options=console.options.update(max_width=MOST_COLUMNS)).maximum
    if console.is_terminal and needed > console.width:
        for row in rows:
            _show_lines(console, row)
    else:
        SafeConsole(highlight=False, width=needed).print(table)


def _table(rows: Iterable[RunRow]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("run", "cluster", "took", "status", "result"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*row.cells)
    return table


def _show_lines(console: SafeConsole, row: RunRow) -> None:
    name, *cells, status, result = row.cells
    print_hanging(console, Text("  ").join((name, status)), indent=INDENT)
    details = Text("  ").join(cell for cell in (*cells, result) if cell)
    print_hanging(console, details, first=Text(" " * INDENT), indent=INDENT)


def show_continuation(run: str, ended: str, command: str) -> None:
    """Print how a run `ended`, and the command that continues it, which has its own line if it does not fit on one."""
    console = SafeConsole(highlight=False)
    how, command = f"{run} {ended}; to continue:", printable(command)
    if console.is_terminal and len(how) + 1 + len(command) > console.width:
        print_hanging(console, Text(how), indent=INDENT)
        console.print(Text(f"{' ' * INDENT}{command}"), soft_wrap=True)
    else:
        console.print(Text(f"{how} {command}"), soft_wrap=True)


def _took(run: RunSummary) -> str:
    if run.ended is not None:
        return duration(run.ended - run.started) if run.ended >= run.started else "clock set back"
    return f"{duration(max(0.0, time.time() - run.started))} so far" if run.status == "running" else ""


def _result(run: RunSummary) -> Text:
    counts = [
        Text(f"{run.verdicts[verdict]} {verdict}", style=STYLES[verdict])
        for verdict in Verdict
        if verdict in run.verdicts
    ]
    return Text(", ").join(counts)
