"""The numbers that a training run ends with on the terminal: the same as in its report."""

from __future__ import annotations

from railbed.model import events
from railbed.model.record import Measurement, Record
from railbed.model.text.amount import duration, plural, size
from railbed.report.reading.series import MeasuringRank, StepSeries, ends

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
