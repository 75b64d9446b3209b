"""One measure over steps, as its records told it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from statistics import fmean
from typing import NamedTuple

from railbed.model.statistics import median

ENDS, MOST_AT_ENDS = 0.02, 10
"""The share of the steps that the beginning, and the end, of a measure is taken from, and how many at most."""


class MeasuringRank(NamedTuple):
    """Who measured."""

    rank: int
    node: str


@dataclass(frozen=True, slots=True)
class Typical:
    """A measure in a few numbers. Every page, screen and file takes its median from here."""

    count: int
    least: float
    low: float
    middle: float
    high: float
    most: float
    """Nine of ten values lie from `low` to `high`."""

    @classmethod
    def of(cls, values: Iterable[float]) -> Typical:
        """Return the numbers of those values that are finite; NaN if there are none."""
        known = sorted(value for value in values if isfinite(value))
        least, most = (known[0], known[-1]) if known else (nan, nan)
        return cls(len(known), least, quantile(known, 0.05), median(known), quantile(known, 0.95), most)


class Points(NamedTuple):
    """Values at steps, in the order of the steps."""

    steps: Sequence[int]
    values: Sequence[float]


@dataclass(slots=True)
class Series:
    """Rows in the order of the file. A step that was done again after a restart stands in it twice."""

    unit: str
    simulated: bool = False
    begins: dict[int, int] = field(default_factory=dict)
    """The first step of each generation; one map for all measures of a run, so that what a restart threw away is thrown
    away of every measure."""
    of_state: bool = False
    """Measured of a state, which may be of the step before the first one of a generation."""
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

    def kept(self) -> dict[int, dict[MeasuringRank, float]]:
        """Return what stands, by step: what a later generation went back behind is not in the history."""
        thrown_away = self._thrown_away()
        by_step: dict[int, dict[MeasuringRank, float]] = {}
        for step, value, number, generation in zip(
            self._steps, self._values, self._from, self._generations, strict=True
        ):
            if step < thrown_away[generation]:
                by_step.setdefault(step, {})[self.sources[number]] = value
        return dict(sorted(by_step.items()))

    def _thrown_away(self) -> dict[int, float]:
        """Return for each generation the first of its steps that a later one went back to."""
        return {
            generation: min((first for later, first in self.begins.items() if later > generation), default=inf)
            for generation in set(self._generations)
        }

    def mean(self) -> Points:
        """Return the mean over the ranks that took a step; what only one rank tells is its own value."""
        rows = self.kept()
        return Points(list(rows), [fmean(by.values()) for by in rows.values()])

    def typical(self) -> Typical:
        """Return the numbers of the steps: of each the mean over its ranks, and of one that was done again the last."""
        return Typical.of(self.mean().values)

    def kept_by_source(self) -> dict[MeasuringRank, list[float]]:
        """Return the values of each rank that stand; none for a rank of which nothing stands."""
        values: dict[MeasuringRank, list[float]] = {source: [] for source in sorted(self.sources)}
        for by in self.kept().values():
            for source, value in by.items():
                values[source].append(value)
        return values

    def by_source(self) -> dict[MeasuringRank, list[float]]:
        """Return all values of each rank, also those of steps that were done again."""
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
    """Return the value below which this share of the values lies (the nearest of them); NaN if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def ends(values: Sequence[float]) -> tuple[float, float]:
    """Return how a measure began and how it ended: medians over the first and last steps, for one batch says little."""
    width = max(1, min(MOST_AT_ENDS, round(len(values) * ENDS)))
    return median(values[:width]), median(values[-width:])


def empty(series: Mapping[str, Series], *names: str) -> bool:
    """Say that none of these was measured."""
    return not any(name in series and len(series[name]) for name in names)
