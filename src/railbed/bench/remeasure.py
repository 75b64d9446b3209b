"""Repeat measurements of slow paths: the median of three distinguishes a slow cable from a busy moment.

If many measurements agree that a node or rail is slow, that is no coincidence; a single path, or the rail between
two nodes, may just have been busy for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railbed.bench.outliers import Outlier, PathSample
from railbed.bench.paths import comparable_paths
from railbed.bench.schedule import BenchSchedule, Trial
from railbed.model import events
from railbed.model.record import Event, Measurement

ENOUGH = 3
"""Measurements of a path whose median survives one bad moment."""
MANY = 4
"""If this many trials are slow, it is not a coincidence."""
MAX_PATHS = 6
"""With more doubtful paths than this nothing is repeated: a busy moment does not slow a whole fabric."""


def doubtful_paths(measured: Sequence[Measurement]) -> list[PathSample]:
    """Return the paths that lag behind comparable ones but were measured too rarely to be sure."""
    outliers = [outlier for group in comparable_paths(measured) for outlier in group.outliers if _is_doubtful(outlier)]
    doubtful = [sample for outlier in outliers for sample in outlier.samples if len(sample.trials) < ENOUGH]
    return doubtful if len(doubtful) <= MAX_PATHS else []


def _is_doubtful(outlier: Outlier) -> bool:
    return len({trial for sample in outlier.samples for trial in sample.trials}) < MANY


def extra_trials(schedule: BenchSchedule, doubtful: Sequence[PathSample]) -> list[Trial]:
    """Return as many repeats as are missing to be sure, with those of one path spread out rather than in a row."""
    numbers = {number for sample in doubtful for number in sample.trials}
    repeats = [
        replace(trial, repeat=repeat)
        for trial in schedule.trials
        if trial.number in numbers and trial.repeat == 1
        for repeat in range(trial.step.repeats + 1, ENOUGH + 1)
    ]
    first = 1 + max((trial.number for trial in schedule.trials), default=0)
    in_turns = sorted(repeats, key=lambda trial: trial.repeat)
    return [replace(trial, number=number) for number, trial in enumerate(in_turns, first)]


def remeasure_event(doubtful: Sequence[PathSample], trials: Sequence[Trial]) -> Event:
    """Announce which paths are measured again, and how long that takes."""
    paths = ", ".join(dict.fromkeys(f"{path.source} > {path.target} on {path.rail}" for path in doubtful))
    lags = "lag" if ", " in paths else "lags"
    seconds = sum(trial.seconds for trial in trials)
    message = f"{paths} {lags} behind the others: measuring again, about {seconds:.0f} s"
    return events.Remeasuring(subject=paths, message=message, seconds=round(seconds, 1))
