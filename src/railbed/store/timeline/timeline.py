"""A run on one time axis, in as few points as are asked for: lowest and highest value of each interval."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from railbed.errors import UsageError
from railbed.model.events import TrainingStarted
from railbed.model.meters import SeriesKey
from railbed.model.record import Event, Finding
from railbed.store.records import RecordFollower
from railbed.store.run import NOTES, RECORDS, RunSummary, read_run_in
from railbed.store.series import SeriesReader, Span
from railbed.store.series.rates import (
    MOST_INTERVALS,
    SECONDS,
    Floats,
    Growth,
    by_time,
    growth,
    interval,
    meter_of,
    values_of,
)
from railbed.store.timeline.data import Drawn, Mark, StepAt, Track, step_at
from railbed.store.timeline.marks import PauseScanner, marks_of


def with_gaps(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return samples with a NaN in each gap, so that no line is drawn across it."""
    usual = interval(times)
    before = np.flatnonzero(np.diff(times) > MOST_INTERVALS * usual)
    if not len(before):
        return times, values
    return np.insert(times, before + 1, times[before] + usual), np.insert(values, before + 1, np.nan)


def with_breaks(times: Floats, values: Floats, breaks: Floats) -> tuple[Floats, Floats]:
    """Return values with a NaN at each time of `breaks` that is between two of them."""
    places = np.searchsorted(times, breaks)
    inside = (places > 0) & (places < len(times))
    return np.insert(times, places[inside], breaks[inside]), np.insert(values, places[inside], np.nan)


def thin_out(drawn: Drawn, start: float, end: float, points: int) -> Drawn:
    """Return at most `points` intervals of equal length, each with its extremes; a gap stays a gap."""
    if len(drawn.times) <= points or not end > start:
        return drawn
    width = (end - start) / points
    numbers = np.clip(((drawn.times - start) / width).astype(np.int64), 0, points - 1)
    begins = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    filled = numbers[begins]
    low, high = np.full(points, np.nan), np.full(points, np.nan)
    low[filled] = np.fmin.reduceat(drawn.low, begins)
    high[filled] = np.fmax.reduceat(drawn.high, begins)
    shown = np.zeros(points, np.bool_)
    shown[filled] = True
    shown |= _inside_gaps(drawn.times, start, width, points)
    times: Floats = start + (np.arange(points, dtype=np.float64) + 0.5) * width
    return Drawn(times[shown], low[shown], high[shown])


def _inside_gaps(times: Floats, start: float, width: float, points: int) -> NDArray[np.bool_]:
    """Return which intervals are completely inside a gap; other empty intervals are due to jitter."""
    before = np.flatnonzero(np.diff(times) > MOST_INTERVALS * interval(times))
    edges = start + np.arange(points + 1) * width
    inside = np.zeros(points, np.bool_)
    for index in before:
        first, last = np.searchsorted(edges, (times[index], times[index + 1]))
        inside[first : last - 1] = True
    return inside


LOOK_BACK = 60.0
"""Seconds before the start of a track that are read for the first rate."""
RESTARTS = frozenset({"restart", "generation"})


class Timeline:
    """The series, measurements and events of a run; `refresh` follows one in progress."""

    def __init__(self, run_folder: Path) -> None:
        summary = read_run_in(run_folder)
        if summary is None:
            raise UsageError(f"{run_folder} is not a run", hint="`railbed runs` lists runs")
        self.summary: RunSummary = summary
        self._folder = run_folder
        self._reader = SeriesReader(run_folder)
        self._records = RecordFollower(run_folder / RECORDS)
        self._notes = RecordFollower(run_folder / NOTES)
        self._records.refresh()
        self._notes.refresh()
        self._marks: Sequence[Mark] | None = None
        self._pauses = PauseScanner(self._reader)

    @property
    def live(self) -> bool:
        """Whether the run is in progress."""
        return self.summary.status == "running"

    @property
    def unstored(self) -> str:
        """Why the last records of the run are missing; empty if all are there."""
        return self.summary.unstored

    @property
    def start(self) -> float:
        """When the run began; earlier if it has samples from before."""
        return min(self.summary.started, self._reader.bounds()[0])

    @property
    def end(self) -> float:
        """When the run ended; now, if it is in progress; the last data of a run that died."""
        if self.live:
            return max(time.time(), self.start)
        last = self._reader.bounds()[1]
        ended = self.summary.ended or 0.0
        return max(ended, self._records.last_time, last if isfinite(last) else 0.0, self.start)

    def refresh(self) -> bool:
        """Read what is new in series and records; return whether there was anything."""
        was_live = self.live
        if was_live:
            # Before reading, so that nothing written just before the end is missed.
            self.summary = read_run_in(self._folder) or self.summary
        is_new = self._reader.refresh() | self._records.refresh() | self._notes.refresh() | (was_live != self.live)
        if is_new:
            self._marks = None
        return is_new

    def series(self) -> Sequence[SeriesKey]:
        """Return every series: the sampled ones, then those that the training measured."""
        return [*self._reader.series(), *self._records.measured]

    def track(self, series: SeriesKey, start: float | None = None, end: float | None = None) -> Track:
        """Return a series as people read it, from `start` to `end`."""
        first, last = -inf if start is None else start, inf if end is None else end
        meter = meter_of(series.meter)
        unit = f"{meter.unit}/s" if meter.kind == "counter" else meter.unit
        if series in self._records.measured:
            times, values = self._read_measured(series)
        else:
            samples = self._reader.samples(series, first - LOOK_BACK, last)
            times, values = by_time(samples.times, values_of(meter, samples))
            if meter.kind == "gauge":
                times, values = with_gaps(times, values)
        inside = (times >= first) & (times <= last)
        return Track(series, meter, unit, times[inside], values[inside])

    def growth(self, series: SeriesKey) -> Growth:
        """Return by how much a sampled counter grew, also over gaps."""
        return growth(self._reader.samples(series))

    def starts(self) -> Sequence[float]:
        """Return when the run began, and when its Slurm job started again: in between it was stopped."""
        starts = [event.time for event in self._records.events if isinstance(event, TrainingStarted)]
        return [self.start, *starts[1:]]

    def draw(self, series: SeriesKey, start: float, end: float, points: int) -> Drawn:
        """Return a series with at most `points` intervals between two times; extremes survive."""
        span = self._find_rollup(series, (end - start) / max(1, points))
        if span is None:
            track = self.track(series, start, end)
            return thin_out(Drawn(track.times, track.values, track.values), start, end, points)
        rollup, seconds = self._reader.rollup(series, span), SECONDS[span]
        inside = (rollup.times >= start - seconds) & (rollup.times <= end)
        times = np.clip(rollup.times[inside] + seconds / 2, start, end)
        return thin_out(Drawn(times, rollup.low[inside], rollup.high[inside]), start, end, points)

    def marks(self) -> Sequence[Mark]:
        """Return what happened, in the order of time."""
        if self._marks is None:
            marks = [*marks_of(self.events()), *self._pauses.marks(live=self.live)]
            # Without the generation, which some marks do not have.
            self._marks = sorted(marks, key=lambda mark: mark[:4])
        return self._marks

    def events(self) -> Sequence[Event]:
        """Return the events of the run and what other commands noted, without log lines and progress."""
        return [*self._records.events, *self._notes.events]

    def findings(self) -> Sequence[Finding]:
        """Return the findings that the run contains."""
        return self._records.findings

    @property
    def unreadable(self) -> int:
        """Records, and rows or chunks of samples, that are damaged and were left out."""
        return self._records.unreadable + self._notes.unreadable + self._reader.damaged

    def step_at(self, moment: float) -> StepAt | None:
        """Return the step that the training was in at a time; None if it made none."""
        measured = (rows for series, rows in self._records.measured.items() if series.meter == "step_seconds")
        return step_at(moment, measured, self._restarts())

    def _restarts(self) -> Floats:
        return np.array([event.time for event in self._records.events if event.name in RESTARTS])

    def _read_measured(self, series: SeriesKey) -> tuple[Floats, Floats]:
        """Return what a rank measured; interrupted at restarts only, since a long step is not a gap."""
        rows = self._records.measured[series]
        times, values = np.array(rows.times), np.array(rows.values)
        order = np.argsort(times, kind="stable")
        return with_breaks(times[order], values[order], self._restarts())

    def _find_rollup(self, series: SeriesKey, seconds: float) -> Span | None:
        """Return the span of roll-ups that is fine enough for intervals of this length."""
        if series in self._records.measured or seconds < 2 * SECONDS["minute"]:
            return None
        return "minute" if seconds < 2 * SECONDS["hour"] else "hour"
