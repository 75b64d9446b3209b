"""The screen of bench: a bar with the time left, a table of the results, then the findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from railbed.bench.compare.arms import DIFFERENCE
from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.plan import PlanPrinter
from railbed.cli.screens.text import STYLES, WIDE, TextScreen
from railbed.model import events
from railbed.model.cluster import Cluster
from railbed.model.record import Change, Finding, Measurement, Record, Verdict
from railbed.model.text import number, printable
from railbed.present.bench import MeasurementGroup, groups, message_size

UNITS = {
    "bandwidth": "{unit}",
    "half_round_trip": "µs ½ rtt",
    "round_trip": "µs rtt",
    "disk_bandwidth": "{unit}",
    "disk_operations": "ops/s",
    "collective_time": "µs",
    "bus_bandwidth": "{unit} busbw",
}
"""The measures that are shown, and their units; the records have the others."""
LEAST = 0.001
"""Smaller values are not shown: 8 bytes in 1200 µs are described by their time, not as 6.7e-06 GB/s."""
NAMES = ("arm", "test", "size", "how", "over")


class BenchScreen(Screen):
    """Progress on standard error, the table and the findings on standard output."""

    def __init__(self, *, verbose: bool, cluster: Cluster | None = None) -> None:
        super().__init__()
        self._verbose = verbose
        self._findings = TextScreen(verbose=verbose, listed_above=frozenset({DIFFERENCE}))
        self._out = SafeConsole(highlight=False)
        self._plan = PlanPrinter(self._out, cluster, temporary=True)
        self._measurements: list[Measurement] = []
        self._answers: list[Text] = []
        self._trials: tuple[int, int] | None = None
        """Number of the current trial, and the total."""

    def show(self, record: Record) -> None:
        """Update the progress line; collect the numbers of the table."""
        self.line.take(record)
        match record:
            case Change():
                self._plan.add(record)
            case events.ChangesPlanned():
                self.line.clear()
                self._plan.show(record)
            case events.BenchPlanned():
                self.line.print_line(record.message, "dim")
            case events.TrialStarted(done=int(done), total=int(total)):
                self._trials = done, total
            case events.Remeasuring():
                self.line.print_line(record.message, "yellow")
            case events.Notice() | events.NodeLost():
                self.line.print_line(f"{record.subject} {record.message}".strip(), "yellow")
            case Measurement():
                self._measurements.append(record)
            case Finding(check=check) if check == DIFFERENCE:
                self._answers.append(_answer(record))
                self._findings.show(record)
            case _:
                self._findings.show(record)

    def finish(self, run: Path) -> None:
        """Show the numbers, then the findings."""
        self.line.stop()
        if rows := groups(self._measurements, measures=UNITS):
            self._out.print(self._table(rows))
            self._out.print()
        for answer in self._answers:
            self._out.print(answer)
            self._out.print()
        self._findings.finish(run)

    def cut_short(self, run: Path) -> None:
        """Show the results so far, and how much was measured."""
        self.finish(run)
        if self._trials:
            done, total = self._trials
            self._out.print(Text(f"interrupted: {done} of {total} measured", style="yellow"))

    def _table(self, rows: Sequence[MeasurementGroup]) -> Table:
        """Return the numbers in rows; a column that is empty in every row is left out."""
        texts = [_texts(group) for group in rows]
        shown = [at for at in range(len(NAMES)) if any(text[at] for text in texts)]
        many = any(len(group.paths) > 1 for group in rows)
        gap = 1 if self._out.width < WIDE else 2
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, gap, 0, 0))
        for at in shown:
            table.add_column(NAMES[at], justify="right" if NAMES[at] == "size" else "left", no_wrap=NAMES[at] == "test")
        for column in ("paths", "lowest", "median", "highest") if many else ("median",):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for group, text in zip(rows, texts, strict=True):
            values, of = group.values, group.summary
            middle = _short(of.median)
            ends = [str(of.paths), _short(of.lowest), middle, _short(of.highest)]
            unit = UNITS[group.measure].format(unit=group.unit)
            table.add_row(*(printable(text[at]) for at in shown), *(ends if many else [middle]), unit)
            if self._verbose and len(values) > 1:
                for path, value in zip(group.paths, values, strict=True):
                    table.add_row(_dim(" > ".join(filter(None, path))), *[""] * (len(shown) + 1), _short(value), "", "")
        return table


def _texts(group: MeasurementGroup) -> tuple[str, ...]:
    """Return the cells of a group's row, in the order of NAMES."""
    streams = f" x{group.streams}" if group.streams > 1 else ""
    test = f"{group.test}{streams}{' gpu' if group.on_gpu else ''}"
    how = f"{group.pattern}{' both' if group.both_ways else ''}"
    return group.arm, test, message_size(group.size, short=True), how, group.over


def _answer(finding: Finding) -> Text:
    """Return the answer to an experiment's question, marked if there is none."""
    mark = "" if finding.verdict is Verdict.OK else f"{finding.verdict.value} "
    subject = (f"{printable(finding.subject)}: ", "bold")
    return Text.assemble((mark, STYLES[finding.verdict]), subject, printable(finding.observed))


def _dim(path: str) -> Text:
    return Text(f"  {printable(path)}", style="dim")


def _short(value: float) -> str:
    return f"<{LEAST:g}" if 0 < value < LEAST else number(value, 3)
