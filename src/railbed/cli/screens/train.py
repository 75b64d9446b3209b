"""The screen of train: a progress line, events of nodes, and a summary with the numbers of the report.

It shows what carries the gradients: in short beside the bar, in a line on changes, in full at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from railbed.api.exits import FOUND
from railbed.cli.console import SafeConsole
from railbed.cli.screens.base import Screen
from railbed.cli.screens.text import STYLES, TextScreen
from railbed.model import events
from railbed.model.events import GradientPath
from railbed.model.record import Event, Finding, Measurement, Record
from railbed.model.text import duration, plural, printable, size
from railbed.report.reading.series import MeasuringRank, StepSeries, ends


class PathLine:
    """The latest verdict about the path of the gradients."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self._write = write
        self._latest: GradientPath | None = None

    def take(self, event: GradientPath) -> None:
        """Note the latest verdict; print it with its remedy if it changed."""
        before = self._latest.verdict if self._latest else None
        self._latest = event
        if event.verdict != before:
            self._write(event.message, self._style())
            if event.remedy:
                self._write(f"→ {event.remedy}", "cyan")

    @property
    def short(self) -> str:
        """Return the verdict in three words, as the end of a sentence."""
        return f", {self._latest.short}" if self._latest else ""

    def finish(self, console: Console) -> None:
        """Print the verdict in full."""
        if self._latest:
            console.print(Text(printable(self._latest.message), style=self._style()))

    def _style(self) -> str:
        assert self._latest is not None
        return STYLES[self._latest.verdict]


KEPT = ("loss", "tokens_per_second", "step_seconds", "bytes_sent", "allreduce_exposed_seconds")
SUMMARISED = ("loss", "tokens_per_second", "allreduce_exposed_seconds")
"""Their summaries are also in the report."""
SHORTEST = 1e-9


class TrainSummary:
    """Collects loss and speed of every step in the history, or the bytes of a network load."""

    def __init__(self) -> None:
        begins: dict[int, int] = {}
        self._series = {name: StepSeries("", begins=begins) for name in SUMMARISED}
        self._generation = 0
        self.steps_taken = 0
        """The last step that was taken."""
        self._steps = 0
        self._restarts = 0
        self._lost_seconds = 0.0
        self._gradient_bytes: int | None = None
        """Bytes of gradients per step, if the recipe is a network load."""
        self._latest: dict[str, float] = {}
        self._sums: dict[str, float] = {}
        self._counted = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        match record:
            case events.GenerationStarted():
                self._generation += 1
            case events.GenerationFailed():
                self._restarts += 1
            case events.CaughtUp(lost_seconds=lost):
                self._lost_seconds += lost
            case events.TrainingStarted():
                self._steps, self._gradient_bytes = record.steps, record.gradient_bytes
            case Measurement(name=name, labels={"step": int(step)}) if name in KEPT:
                self._add_step(record, step)

    def _add_step(self, record: Measurement, step: int) -> None:
        rank, node = record.labels.get("rank", 0), record.labels.get("node", "")
        if record.name in self._series:
            source = MeasuringRank(rank if isinstance(rank, int) else 0, str(node))
            self._series[record.name].add(step, record.value, source, self._generation)
        if rank == 0:
            self._latest[record.name] = record.value
            self._sums[record.name] = self._sums.get(record.name, 0.0) + record.value
            if record.name == "step_seconds":
                self.steps_taken = step
                self._counted += 1

    @property
    def now(self) -> str:
        """The newest numbers, in short."""
        if self._gradient_bytes is not None:
            return f"{size(self._gradient_bytes / max(self._latest['step_seconds'], SHORTEST))}/s"
        speed = self._latest.get("tokens_per_second", 0)
        return f"loss {self._latest.get('loss', float('nan')):.3f}, {speed:,.0f} tokens/s"

    @property
    def sentence(self) -> str:
        """The summary of the run."""
        cost = f", which cost {self._lost_seconds:.1f} s" if self._lost_seconds else ""
        restarts = f", {plural(self._restarts, 'restart')}{cost}" if self._restarts else ""
        if self._gradient_bytes is None:
            return f"trained {self.steps_taken} of {self._steps} steps{restarts}: {self.numbers}"
        gradient, seconds = self._gradient_bytes, max(self._sums.get("step_seconds", 0.0), SHORTEST)
        exposed = self._series["allreduce_exposed_seconds"].typical()
        waited = duration(exposed.middle if exposed.count else 0.0)
        return (
            f"reduced {self.steps_taken} of {self._steps} gradients of {size(gradient)}{restarts}: "
            f"{size(gradient * self._counted / seconds)}/s while reducing, "
            f"{waited} of a step spent waiting for the network in the median, "
            f"{size(self._sums.get('bytes_sent', 0.0))} sent by rank 0"
        )

    @property
    def numbers(self) -> str:
        """The loss at both ends and the median speed; empty if no step was taken."""
        losses = self._series["loss"].mean().values
        if not losses:
            return ""
        begin, end = ends(losses)
        speed = self._series["tokens_per_second"].typical()
        return f"loss {begin:.3f} → {end:.3f}" + (
            f", {speed.middle:,.0f} tokens/s in the median" if speed.count else ""
        )


WARNING = "yellow"
EVENT_STYLES: dict[type[Event], str] = {
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
            case Event() if type(record) in EVENT_STYLES:
                where = (
                    f"{record.subject}: " if record.subject and not record.message.startswith(record.subject) else ""
                )
                self.line.print_line(f"{where}{record.message}", EVENT_STYLES[type(record)])
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
