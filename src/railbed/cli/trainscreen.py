"""What the user sees of training: a bar that moves, what happens to nodes in words, and a summary."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from railbed.cli.bar import BarScreen
from railbed.cli.console import SafeConsole
from railbed.cli.exits import FOUND
from railbed.cli.pathline import PathLine
from railbed.cli.tables import TextScreen
from railbed.cli.trainsummary import TrainSummary
from railbed.model.printable import printable
from railbed.model.record import Event, Finding, Measurement, Record

NODES = ("node_up", "node_lost", "node_cut", "node_out")
TOLD = (
    *(*NODES, "estimate", "generation", "restart", "caught_up", "resuming", "resumed", "intrusion"),
    *("shares", "checkpoint_failed", "notice", "error"),
)
STYLES = {
    "restart": "yellow",
    "intrusion": "bold red",
    **dict.fromkeys((*NODES[1:], "error", "checkpoint_failed"), "red"),
}
QUIET_SECONDS = 10.0
"""How often a line is printed where there is no terminal to draw a bar on."""


class TrainScreen(BarScreen):
    """Progress and events on standard error, the summary on standard output."""

    def __init__(self, *, steps: int, verbose: bool) -> None:
        self._findings = TextScreen(verbose=verbose)
        self._out = SafeConsole(highlight=False)
        self._err = SafeConsole(stderr=True, highlight=False)
        self._latest: dict[str, float] = {}
        self._summary = TrainSummary()
        self._step, self._steps, self._restarts = 0, steps, 0
        self._sample = ""
        self._export = ""
        self._lost = 0.0
        self._ending = ""
        self._path = PathLine(self._progress_print)
        self._told = 0.0
        self._clock = 0.0
        self._progress = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[now]}"),
            TimeRemainingColumn(),
            console=self._err,
            transient=True,
            disable=not sys.stderr.isatty(),
            get_time=lambda: self._clock,  # of the records: steps of the past are shown faster than they were taken
        )
        self._task = self._progress.add_task("training", total=steps, now="")

    def show(self, record: Record) -> None:
        """Move the bar, or tell what happened."""
        self._summary.add(record)
        match record:
            case Finding():
                self._findings.show(record)
            case Measurement(labels={"rank": 0, "step": int(step)}):
                self._take(record, step)
            case Event(name="gradient_path"):
                self._path.take(record)
            case Event(name="sample", data={"text": str(text)}):
                self._sample = text
            case Event(name="exported", subject=subject, data={"folder": str(folder)}):
                self._export = f"{folder} on {subject.partition('/')[0]}"
            case Event(name="transport", message=reason, data={"falls_back": falls_back}):
                style = STYLES["restart"] if falls_back else "dim"
                self._progress.console.print(Text(printable(f"gradients: {reason}"), style=style))
            case Event(name="ending", message=message):
                self._ending = message
            case Event(name=name) if name in TOLD:
                self._tell(record)
            case _:
                pass

    def _take(self, measured: Measurement, step: int) -> None:
        self._latest[measured.name] = measured.value
        if measured.name == "tokens_per_second":
            self._clock = measured.time
            self._move(step)

    def _tell(self, event: Event) -> None:
        self._restarts += event.name == "restart"
        match event.data.get("lost_seconds"):
            case float() | int() as lost:
                self._lost += lost
        where = f"{event.subject}: " if event.subject and not event.message.startswith(event.subject) else ""
        line = Text(printable(f"{where}{event.message}"), style=STYLES.get(event.name, "dim"))
        self._progress.console.print(line)

    def finish(self, run: Path) -> None:
        """Say how it went."""
        self._progress.stop()
        if numbers := self._summary.numbers:
            self._sum_up(numbers, run)
        if self._ending:
            self._out.print(Text(f"exit {FOUND}: {printable(self._ending)}", style=STYLES["restart"]))

    def _sum_up(self, numbers: str, run: Path) -> None:
        cost = f", which cost {self._lost:.1f} s" if self._lost else ""
        restarts = f", {self._restarts} restart{'s' * (self._restarts > 1)}{cost}" if self._restarts else ""
        self._out.print(f"trained {self._step} of {self._steps} steps{restarts}: {numbers}{self._path.short}")
        self._path.finish(self._out)
        if self._sample:
            self._out.print(Text(f"a sample: {printable(self._sample)}"))
        if self._export:
            self._out.print(Text(f"weights: {printable(self._export)}"))
            self._out.print(Text(f"  `railbed export {run.name} DIR` fetches them"))
        self._out.print(Text.assemble("kept as ", (str(run), "bold")))

    def _progress_print(self, line: Text) -> None:
        self._progress.console.print(line)

    def _move(self, step: int) -> None:
        self._step = step
        self._progress.update(self._task, completed=step, now=f"loss {self._now()}")
        if self._progress.disable and time.monotonic() - self._told > QUIET_SECONDS:
            self._told = time.monotonic()
            self._err.print(f"step {step}/{self._steps}  loss {self._now()}")

    def _now(self) -> str:
        speed = self._latest.get("tokens_per_second", 0)
        return f"{self._latest.get('loss', float('nan')):.3f}, {speed:,.0f} tokens/s{self._path.short}"
