"""What a timeline returns, and the step that a training was in at a time.

After a restart, steps are repeated, and some never ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from railbed.model.meters import Meter, SeriesKey
from railbed.store.records import Steps
from railbed.store.series.rates import Floats, Integers

MarkKind = Literal["fault", "restart", "lost", "checkpoint", "gap", "clock", "traffic", "pause", "error", "notice"]


class Mark(NamedTuple):
    """Something that happened at a time, to show on every chart."""

    time: float
    kind: MarkKind
    subject: str
    """A device, or empty."""
    text: str
    generation: int | None = None
    """That ended, for a restart; or that began."""


class Track(NamedTuple):
    """A series as people read it: counters as rates, gauges in their unit; NaN is a gap."""

    series: SeriesKey
    meter: Meter
    unit: str
    times: Floats
    values: Floats


class Drawn(NamedTuple):
    """A series with few points to draw: lowest and highest value of each interval; NaN is a gap."""

    times: Floats
    low: Floats
    high: Floats


class StepAt(NamedTuple):
    """Where a training was at a time."""

    step: int
    is_repeated: bool = False
    """Whether the step had been made before, by ranks that were then restarted from an earlier state."""
    is_over: bool = False
    """Whether it had ended, and no later one did before the ranks stopped."""


def step_at(moment: float, measured: Iterable[Steps], starts: Floats) -> StepAt | None:
    """Return the step in which a training was at a time; `starts` are those of the ranks."""
    rows = [(np.array(rank.times), np.array(rank.steps)) for rank in measured if len(rank.times)]
    if not rows:
        return None
    times, steps = (np.concatenate(columns) for columns in zip(*rows, strict=True))
    later = times >= moment
    first = float(times[later].min()) if later.any() else np.inf
    restart = starts[(starts > moment) & (starts <= first)].min(initial=np.inf)
    if not np.isfinite(first) or (np.isfinite(restart) and not later.all()):
        return StepAt(_last(times[~later], steps[~later]), is_over=True) if not later.all() else None
    step = int(steps[times == first].min())
    begun = starts[starts <= first].max(initial=-np.inf)
    earlier = steps[times < begun]
    return StepAt(step, is_repeated=bool(len(earlier)) and step <= int(earlier.max()))


def _last(times: Floats, steps: Integers) -> int:
    return int(steps[times == times.max()].max())
