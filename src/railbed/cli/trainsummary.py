"""The numbers that a training run ends with on the terminal: the same as in its report."""

from __future__ import annotations

from railbed.model.record import Event, Measurement, Record
from railbed.report.series import Series, Source, ends


class TrainSummary:
    """Keeps the loss and the speed of every step that stands."""

    def __init__(self) -> None:
        begins: dict[int, int] = {}
        self._series = {name: Series("", begins=begins) for name in ("loss", "tokens_per_second")}
        self._generation = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        match record:
            case Event(name="generation"):
                self._generation += 1
            case Measurement(name="loss" | "tokens_per_second" as name, value=value, labels={"step": int(step)}):
                rank, node = record.labels.get("rank", 0), record.labels.get("node", "")
                source = Source(rank if isinstance(rank, int) else 0, str(node))
                self._series[name].add(step, value, source, self._generation)

    @property
    def numbers(self) -> str:
        """The loss at both ends and the median speed; empty where no step was taken."""
        losses = self._series["loss"].mean().values
        if not losses:
            return ""
        begin, end = ends(losses)
        speed = self._series["tokens_per_second"].typical()
        return f"loss {begin:.3f} → {end:.3f}" + (
            f", {speed.middle:,.0f} tokens/s in the median" if speed.count else ""
        )
