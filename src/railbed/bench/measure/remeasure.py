"""A second look at what is slow: the middle of three measurements tells a slow cable from a busy moment.

What many measurements show of a node or rail is no chance; one single way, or the rail of two nodes, may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railbed.bench.judge.outliers import Outlier, Sample
from railbed.bench.judge.verdicts.peers import alike_ways
from railbed.bench.measure.schedule import Schedule, Trial
from railbed.model.record import Event, Measurement

ENOUGH = 3
"""Measurements of a way whose middle is not moved by one bad moment."""
MANY = 4
"""Trials that are not slow by chance all together."""
MOST_WAYS = 6
"""More doubtful ways than these are not looked at again: a whole fabric in trouble is not explained by a moment."""


def doubtful_ways(measured: Sequence[Measurement]) -> list[Sample]:
    """Return the ways that lag behind the others, and were measured too seldom to be sure of that."""
    found = [one for alike in alike_ways(measured) for one in alike.outliers if _rests_on_little(one)]
    doubtful = [sample for one in found for sample in one.samples if len(sample.trials) < ENOUGH]
    return doubtful if len(doubtful) <= MOST_WAYS else []


def _rests_on_little(outlier: Outlier) -> bool:
    return len({trial for sample in outlier.samples for trial in sample.trials}) < MANY


def second_look(plan: Schedule, doubtful: Sequence[Sample]) -> list[Trial]:
    """Return the trials that measured them, as often as is missing to be sure, and those of one way not in a row."""
    asked = {number for sample in doubtful for number in sample.trials}
    missing = [
        replace(trial, repeat=repeat)
        for trial in plan.trials
        if trial.number in asked and trial.repeat == 1
        for repeat in range(trial.step.repeats + 1, ENOUGH + 1)
    ]
    first = 1 + max((trial.number for trial in plan.trials), default=0)
    in_turns = sorted(missing, key=lambda trial: trial.repeat)
    return [replace(trial, number=number) for number, trial in enumerate(in_turns, first)]


def announced(doubtful: Sequence[Sample], trials: Sequence[Trial]) -> Event:
    """Return what is told before it."""
    ways = ", ".join(dict.fromkeys(f"{one.source} > {one.target} on {one.rail}" for one in doubtful))
    lags = "lag" if ", " in ways else "lags"
    seconds = sum(trial.seconds for trial in trials)
    message = f"{ways} {lags} behind the others: a second look, about {seconds:.0f} s"
    return Event(name="second_look", subject=ways, message=message, data={"seconds": round(seconds, 1)})
