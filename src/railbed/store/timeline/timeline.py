"""A run on one time axis."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path

import numpy as np

from railbed.errors import UsageError
from railbed.model.events import TrainingStarted
from railbed.model.meters import SeriesKey
from railbed.model.record import Event, Finding
from railbed.store.run import NOTES, RECORDS, RunSummary, read_run_in
from railbed.store.series import SeriesReader, Span
from railbed.store.series.data import SECONDS, Floats, by_time, meter_of
from railbed.store.series.rates import Growth, growth, values_of
from railbed.store.timeline.data import Drawn, Mark, Track
from railbed.store.timeline.draw import bucketed, with_breaks, with_gaps
from railbed.store.timeline.marks import marks_of
from railbed.store.timeline.pauses import PauseScanner
from railbed.store.timeline.records import RecordFollower
from railbed.store.timeline.steps import StepAt, step_at

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
            times, values = self._measured(series)
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

    def drawn(self, series: SeriesKey, start: float, end: float, points: int) -> Drawn:
        """Return a series with at most `points` intervals between two times; extremes survive."""
        span = self._rolled_up(series, (end - start) / max(1, points))
        if span is None:
            track = self.track(series, start, end)
            return bucketed(Drawn(track.times, track.values, track.values), start, end, points)
        rollup, seconds = self._reader.rollup(series, span), SECONDS[span]
        inside = (rollup.times >= start - seconds) & (rollup.times <= end)
        times = np.clip(rollup.times[inside] + seconds / 2, start, end)
        return bucketed(Drawn(times, rollup.low[inside], rollup.high[inside]), start, end, points)

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

    def _measured(self, series: SeriesKey) -> tuple[Floats, Floats]:
        """Return what a rank measured; interrupted at restarts only, since a long step is not a gap."""
        rows = self._records.measured[series]
        times, values = np.array(rows.times), np.array(rows.values)
        order = np.argsort(times, kind="stable")
        return with_breaks(times[order], values[order], self._restarts())

    def _rolled_up(self, series: SeriesKey, seconds: float) -> Span | None:
        """Return the span of roll-ups that is fine enough for intervals of this length."""
        if series in self._records.measured or seconds < 2 * SECONDS["minute"]:
            return None
        return "minute" if seconds < 2 * SECONDS["hour"] else "hour"
