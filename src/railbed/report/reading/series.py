"""One measure over steps, from its records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from statistics import fmean
from typing import NamedTuple

from railbed.model.statistics import median

ENDS, MOST_AT_ENDS = 0.02, 10
"""The share of the steps, and the maximum number, for the value at the beginning and at the end."""


class MeasuringRank(NamedTuple):
    """The rank that measured, and its node."""

    rank: int
    node: str


@dataclass(frozen=True, slots=True)
class Typical:
    """Median and range of a measure, the same for every page, screen and file."""

    count: int
    least: float
    low: float
    middle: float
    high: float
    most: float
    """Nine of ten values are between `low` and `high`."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Typical:
        """Return median and range of the finite values; NaN if there are none."""
        known = sorted(value for value in values if isfinite(value))
        least, most = (known[0], known[-1]) if known else (nan, nan)
        return cls(len(known), least, quantile(known, 0.05), median(known), quantile(known, 0.95), most)


class Points(NamedTuple):
    """Values at steps, in the order of the steps."""

    steps: Sequence[int]
    values: Sequence[float]


@dataclass(slots=True)
class StepSeries:
    """Rows in the order of the file. A step that was repeated after a restart occurs twice."""

    unit: str
    simulated: bool = False
    begins: dict[int, int] = field(default_factory=dict)
    """The first step of each generation; one map for all measures of a run, so that a restart discards the same steps
    of every measure."""
    of_state: bool = False
    """Measured after a step, which may be the step before the first one of a generation."""
    sources: list[MeasuringRank] = field(default_factory=list)
    _number: dict[MeasuringRank, int] = field(default_factory=dict)
    _steps: array[int] = field(default_factory=lambda: array("q"))
    _values: array[float] = field(default_factory=lambda: array("d"))
    _from: array[int] = field(default_factory=lambda: array("L"))
    _generations: array[int] = field(default_factory=lambda: array("L"))

    def add(self, step: int, value: float, source: MeasuringRank, generation: int) -> None:
        """Add a row."""
        if source not in self._number:
            self._number[source] = len(self.sources)
            self.sources.append(source)
        self._steps.append(step)
        self._values.append(value)
        self._from.append(self._number[source])
        self._generations.append(generation)
        if not self.of_state:
            self.begins[generation] = min(step, self.begins.get(generation, step))

    def __len__(self) -> int:
        return len(self._steps)

    def history(self) -> dict[int, dict[MeasuringRank, float]]:
        """Return the values in the history, by step: without those that a later generation discarded."""
        thrown_away = self._discarded_from()
        by_step: dict[int, dict[MeasuringRank, float]] = {}
        for step, value, number, generation in zip(
            self._steps, self._values, self._from, self._generations, strict=True
        ):
            if step < thrown_away[generation]:
                by_step.setdefault(step, {})[self.sources[number]] = value
        return dict(sorted(by_step.items()))

    def _discarded_from(self) -> dict[int, float]:
        """Return, for each generation, the first of its steps that a later generation repeated."""
        return {
            generation: min((first for later, first in self.begins.items() if later > generation), default=inf)
            for generation in set(self._generations)
        }

    def mean(self) -> Points:
        """Return the mean over the ranks that reported a step."""
        rows = self.history()
        return Points(list(rows), [fmean(by.values()) for by in rows.values()])

    def typical(self) -> Typical:
        """Return median and range over the steps: the mean over the ranks, and the last value of a repeated step."""
        return Typical.of(self.mean().values)

    def history_by_source(self) -> dict[MeasuringRank, list[float]]:
        """Return the values of each rank that are in the history."""
        values: dict[MeasuringRank, list[float]] = {source: [] for source in sorted(self.sources)}
        for by in self.history().values():
            for source, value in by.items():
                values[source].append(value)
        return values

    def by_source(self) -> dict[MeasuringRank, list[float]]:
        """Return all values of each rank, including those of repeated steps."""
        values: dict[MeasuringRank, list[float]] = {source: [] for source in sorted(self.sources)}
        for value, number in zip(self._values, self._from, strict=True):
            values[self.sources[number]].append(value)
        return values

    def last_steps(self) -> dict[int, tuple[int, int]]:
        """Return the first and the last step of each generation."""
        steps: dict[int, tuple[int, int]] = {}
        for step, generation in zip(self._steps, self._generations, strict=True):
            first, last = steps.get(generation, (step, step))
            steps[generation] = min(first, step), max(last, step)
        return steps


def quantile(values: Iterable[float], share: float) -> float:
    """Return the quantile of the values (the nearest value); NaN if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the value at the beginning and at the end: medians over several steps, since single batches vary."""
    width = max(1, min(MOST_AT_ENDS, round(len(values) * ENDS)))
    return median(values[:width]), median(values[-width:])


def empty(series: Mapping[str, StepSeries], *names: str) -> bool:
    """Whether none of these was measured."""
    return not any(name in series and len(series[name]) for name in names)
