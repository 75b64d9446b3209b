"""The screen of train: a progress line, events of nodes, and a summary."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from railbed.api.exits import FOUND
from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.gradients import PathLine
from railbed.cli.screens.text import TextScreen
from railbed.cli.screens.train_summary import TrainSummary
from railbed.model import events
from railbed.model.record import Event, Finding, Measurement, Record
from railbed.model.text.printable import printable

WARNING = "yellow"
STYLES: dict[type[Event], str] = {
    **dict.fromkeys((events.NodeUp, events.MemoryEstimated, events.GenerationStarted, events.CaughtUp), "dim"),
    **dict.fromkeys((events.Resuming, events.Resumed, events.SharesChanged, events.Notice, events.FilesCopied), "dim"),
    **dict.fromkeys((events.GenerationFailed, events.MicroBatchHalved), WARNING),
    **dict.fromkeys((events.NodeLost, events.NodeCut, events.NodeOut), "red"),
    **dict.fromkeys((events.ErrorReported, events.CheckpointFailed), "red"),
    events.Intrusion: "bold red",
}
"""Events that are printed as they happen."""


class TrainScreen(Screen):
    """Progress and events on standard error, the summary on standard output."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._findings = TextScreen(verbose=verbose)
        self._out = SafeConsole(highlight=False)
        self._summary = TrainSummary()
        self._sample = ""
        self._export = ""
        self._ending = ""
        self._path = PathLine(self.line.print_line)

    def show(self, record: Record) -> None:
        """Update the progress line, or print an event."""
        self.line.take(record)
        self._summary.add(record)
        match record:
            case Finding(generation=None):
                self._findings.show(record)
            case events.RestartChecked(message=message):
                self.line.print_line(message, WARNING if record.failed else "dim")
            case Measurement(name="step_seconds", labels={"rank": 0}):
                self.line.activity.detail = f"{self._summary.now}{self._path.short}"
            case events.GradientPath():
                self._path.take(record)
            case events.TextSampled(text=str(text)):
                self._sample = text
            case events.WeightsWritten(subject=subject, folder=folder):
                self._export = f"{folder} on {subject.partition('/')[0]}"
            case events.TransportChosen(message=reason, falls_back=falls_back):
                self.line.print_line(f"gradients: {reason}", WARNING if falls_back else "dim")
            case events.FellShort(message=message):
                self._ending = message
            case Event() if type(record) in STYLES:
                where = (
                    f"{record.subject}: " if record.subject and not record.message.startswith(record.subject) else ""
                )
                self.line.print_line(f"{where}{record.message}", STYLES[type(record)])
            case _:
                pass

    def finish(self, run: Path) -> None:
        """Print the summary."""
        if self._show_summary(run):
            self._out.print(Text.assemble("saved in ", (str(run), "bold")))
        if self._ending:
            self._out.print(Text(f"exit {FOUND}: {printable(self._ending)}", style=WARNING))

    def cut_short(self, run: Path) -> None:
        """Print the summary so far."""
        self._show_summary(run)

    def _show_summary(self, run: Path) -> bool:
        self.line.stop()
        if not self._summary.steps_taken:
            return False
        self._out.print(Text(f"{self._summary.sentence}{self._path.short}"))
        self._path.finish(self._out)
        if self._sample:
            self._out.print(Text(f"a sample: {printable(self._sample)}"))
        if self._export:
            self._out.print(Text(f"weights: {printable(self._export)}"))
            self._out.print(Text(f"  `railbed export {run.name} DIR` fetches them"))
        return True
