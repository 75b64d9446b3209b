"""What the user sees of measuring: a bar with the time left, a table of what came out, then the findings."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from railbed.bench.compare.arms import DIFFERENCE
from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.text import STYLES, WIDE, TextScreen
from railbed.model.amount import number
from railbed.model.printable import printable
from railbed.model.record import Event, Finding, Measurement, Record, Verdict
from railbed.model.statistics import median

UNITS = {
    "bandwidth": "{unit}",
    "half_round_trip": "µs ½ rtt",
    "round_trip": "µs rtt",
    "disk_bandwidth": "{unit}",
    "disk_operations": "ops/s",
    "collective_time": "µs",
    "bus_bandwidth": "{unit} busbw",
}
"""What is shown, and as what; all else stands in the records."""
LEAST = 0.001
"""Less is not told on the screen: 8 bytes in 1200 µs are what they are by their time, not as 6.7e-06 GB/s."""
NAMES = ("arm", "test", "size", "how", "over")
Group = tuple[str, ...]


class BenchScreen(Screen):
    """Progress on standard error, the table and the findings on standard output."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose
        self._findings = TextScreen(verbose=verbose, told_before=frozenset({DIFFERENCE}))
        self._out = SafeConsole(highlight=False)
        self._values: dict[Group, dict[str, list[float]]] = {}
        self._answers: list[Text] = []
        self._trials: tuple[int, int] | None = None
        """Which trial this is, and of how many."""

    def show(self, record: Record) -> None:
        """Move the progress line; keep what is shown in tables."""
        self.line.take(record)
        match record:
            case Event(name="bench"):
                self.line.say(record.message, "dim")
            case Event(name="trial", data={"done": int(done), "total": int(total)}):
                self._trials = done, total
            case Event(name="second_look"):
                self.line.say(record.message, "yellow")
            case Event(name="notice" | "node_lost"):
                self.line.say(f"{record.subject} {record.message}".strip(), "yellow")
            case Measurement():
                self._keep(record)
            case Finding(check=check) if check == DIFFERENCE:
                self._answers.append(_answer(record))
                self._findings.show(record)
            case _:
                self._findings.show(record)

    def finish(self, run: Path) -> None:
        """Show the numbers, then what they mean."""
        self.line.stop()
        if self._values:
            self._out.print(self._table())
            self._out.print()
        for answer in self._answers:
            self._out.print(answer)
            self._out.print()
        self._findings.finish(run)

    def cut_short(self, run: Path) -> None:
        """Show what was measured until then, as at the end, and how much of it there is."""
        self.finish(run)
        if self._trials:
            done, total = self._trials
            self._out.print(Text(f"interrupted: {done} of {total} measured", style="yellow"))

    def _keep(self, one: Measurement) -> None:
        labels = one.labels
        if one.name not in UNITS or labels.get("stat") not in (None, "p50"):
            return
        many = f" x{labels['streams']}" if int(labels.get("streams", 1)) > 1 else ""
        on_gpu = " gpu" if labels.get("memory") == "gpu" else ""
        how = str(labels.get("pattern", "")) + (" both" if labels.get("direction") == "both" else "")
        over = str(labels.get("rail") or labels.get("engine") or "")
        unit = UNITS[one.name].format(unit=one.unit)
        test, arm = f"{labels.get('test', '')}{many}{on_gpu}", str(labels.get("arm", ""))
        group = (arm, test, _size(labels.get("size")), how, over, unit)
        way = f"{labels['from']} > {labels['to']}" if "from" in labels else str(labels.get("node", "all"))
        self._values.setdefault(group, {}).setdefault(way, []).append(one.value)

    def _table(self) -> Table:
        """Return the numbers in rows; what no row has takes no column."""
        shown = [at for at in range(len(NAMES)) if any(group[at] for group in self._values)]
        many = any(len(ways) > 1 for ways in self._values.values())
        gap = 1 if self._out.width < WIDE else 2
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, gap, 0, 0))
        for at in shown:
            table.add_column(NAMES[at], justify="right" if NAMES[at] == "size" else "left", no_wrap=NAMES[at] == "test")
        for column in ("ways", "lowest", "middle", "highest") if many else ("middle",):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for (*names, unit), ways in self._values.items():
            values = {way: median(repeats) for way, repeats in ways.items()}
            middle = _short(median(list(values.values())))
            ends = [str(len(ways)), _short(min(values.values())), middle, _short(max(values.values()))]
            table.add_row(*(printable(names[at]) for at in shown), *(ends if many else [middle]), unit)
            if self._verbose and len(values) > 1:
                for way, value in values.items():
                    table.add_row(_dim(way), *[""] * (len(shown) + 1), _short(value), "", "")
        return table


def _answer(finding: Finding) -> Text:
    """Return the answer to a question of an experiment, marked where there is none."""
    mark = "" if finding.verdict is Verdict.OK else f"{finding.verdict.value} "
    subject = (f"{printable(finding.subject)}: ", "bold")
    return Text.assemble((mark, STYLES[finding.verdict]), subject, printable(finding.observed))


def _dim(way: str) -> Text:
    return Text(f"  {printable(way)}", style="dim")


def _short(value: float) -> str:
    return f"<{LEAST:g}" if 0 < value < LEAST else number(value, 3)


def _size(size: str | int | None) -> str:
    if not isinstance(size, int):
        return ""
    for unit, word in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{word}"
    return str(size)
